#!/usr/bin/env bash
# `make demo`: two pods with three networks each and real CNI plugins, without a cluster. It runs in separate
# network, mount and process namespaces, and in one directory, which it removes at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "demo: $1" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || fail "it makes network namespaces and so needs root: sudo make demo"
for tool in unshare ip ping iptables-save; do
  command -v "$tool" >/dev/null || fail "$tool is missing: run \`make deps\`"
done
for file in dist/plexus dist/plexusd.js; do
  [ -e "${PLEXUS_DIST:-dist}/${file#dist/}" ] || fail "$file is missing: run \`make build\`"
done
namespaces=(--net --mount --pid --fork --kill-child --mount-proc --propagation private)
unshare "${namespaces[@]}" true 2>/dev/null || fail "cannot make namespaces here: is this a container without CAP_SYS_ADMIN?"
exec unshare "${namespaces[@]}" node_modules/.bin/node scripts/demo/main.ts
