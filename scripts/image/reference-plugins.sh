#!/usr/bin/env bash
# Builds the CNI reference plugins into DIRECTORY, from their released Go module: static, for any node.
set -euo pipefail
version=v1.10.0

out=${1:?usage: scripts/image/reference-plugins.sh DIRECTORY}
module=github.com/containernetworking/plugins
packages=()
for name in ipam/{dhcp,host-local,static} main/{bridge,dummy,host-device,ipvlan,loopback,macvlan,ptp,tap,vlan} \
  meta/{bandwidth,firewall,portmap,sbr,tuning,vrf}; do
  packages+=("$module/plugins/$name@$version")
done
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
# The module asks for a Go that Debian may not have yet.
GOBIN=$new CGO_ENABLED=0 GOTOOLCHAIN=auto go install -trimpath \
  -ldflags "-s -w -X $module/pkg/utils/buildversion.BuildVersion=$version" "${packages[@]}"
rm -rf "$out"
mkdir -p "$out"
cp "$new"/* "$out"
