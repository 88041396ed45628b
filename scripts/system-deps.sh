#!/usr/bin/env bash
# Checks what building (`build`), building the reference plugins (`plugins`), the demo (`demo`), testing (`test`), the
# test cluster (`cluster`), an enforcer of network policies (`policies`), Docker (`docker`), a release (`release`), the
# benchmark (`bench`) or fresh systems (`fresh`) need, and installs missing Debian packages. It installs no recommended
# packages, so each package is listed here.
set -euo pipefail

missing=()
need() { # need PACKAGE CHECK...: PACKAGE is missing unless CHECK succeeds
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
has_plugins() {
  local dir plugin
  for dir in ${CNI_PLUGIN_DIR:-} /opt/cni/bin /usr/lib/cni; do
    for plugin in bridge ptp macvlan host-local static portmap bandwidth firewall tuning; do
      [ -x "$dir/$plugin" ] || continue 2
    done
    return 0
  done
  return 1
}
sanitizers() { echo 'int LLVMFuzzerTestOneInput(void){return 0;}' | clang -fsanitize=fuzzer,address -x c -o /dev/null -; }
static_cc() { echo 'int main(void){return 0;}' | cc -static -x c -o /dev/null -; }
browser() { command -v chromium || command -v google-chrome; }
# Docker Engine 20.10 is linked with it.
devmapper() { ls /lib/*/libdevmapper.so.1.02.1; }
ca_bundle() { [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ]; }
can_install() { command -v apt-get && [ "$(id -u)" = 0 ]; }
# musl makes the shim small. If it cannot be installed, any compiler that links statically works; the build
# prints the size that this costs.
shim_cc() { command -v musl-gcc || { ! can_install && static_cc; }; }

case ${1:?build, plugins, demo, test, cluster, policies, docker, release, bench or fresh} in
build)
  need musl-tools shim_cc
  need gcc command -v cc
  need linux-libc-dev test -e /usr/include/linux/netlink.h
  need ca-certificates ca_bundle
  ;;
plugins)
  need golang command -v go
  ;;
demo | test | cluster | docker | bench)
  need containernetworking-plugins has_plugins
  need iproute2 command -v ip
  need iptables command -v iptables
  need nftables command -v nft
  need iputils-ping command -v ping
  need util-linux command -v unshare
  ;;&
test)
  need libc6-dev test -e /usr/include/stdio.h
  need clang command -v clang
  need "${LIBCLANG_RT:-libclang-rt-dev}" sanitizers
  need openssl command -v openssl
  ;;
cluster)
  need curl command -v curl
  need gcc command -v gcc
  need libc6-dev test -e /usr/include/stdio.h
  need golang command -v go
  need hostname command -v hostname
  need openssl command -v openssl
  need procps env kill -l
  ;;
docker)
  need libdevmapper1.02.1 devmapper
  need gcc command -v gcc
  need libc6-dev test -e /usr/include/stdio.h
  ;;
release)
  need chromium browser
  need systemd command -v systemd-analyze
  need util-linux command -v flock
  ;;
bench)
  need gcc command -v gcc
  need libc6-dev test -e /usr/include/stdio.h
  need openssl command -v openssl
  need strace command -v strace
  [ "${BENCH_PEERS:-}" = none ] || [ -n "${BENCH_MULTUS:-}" ] || need golang command -v go
  ;;
fresh | policies)
  need mmdebstrap command -v mmdebstrap
  need util-linux command -v unshare
  ;;&
policies)
  need jq command -v jq
  ;;
esac

[ ${#missing[@]} -eq 0 ] && exit 0
if can_install >/dev/null; then
  # Another target may be installing.
  exec 9<"$0"
  flock 9
  echo "installing ${missing[*]}"
  apt-get update -qq >/dev/null || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null && exit 0
  [ "${missing[*]}" = musl-tools ] && static_cc 2>/dev/null && exit 0
  exit 1
fi
{
  echo "missing: ${missing[*]} (names of Debian packages)"
  if command -v apt-get >/dev/null; then
    echo "run as root: apt-get install ${missing[*]}"
  else
    echo "install what they contain: a C compiler that links statically (musl-gcc, or cc with a static libc), the"
    echo "kernel's headers, the CNI reference plugins in /opt/cni/bin, ip, iptables, nft, ping, unshare"
  fi
} >&2
exit 1
