#!/usr/bin/env bash
# Installs dist/plexus-image.tar, which must contain the reference plugins, on the kind cluster NAME. Creates that
# cluster if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

name=${1:?usage: scripts/kind.sh NAME}
for program in kind kubectl; do
  command -v "$program" >/dev/null || { echo "$program is missing: https://kind.sigs.k8s.io" >&2; exit 1; }
done
kubectl() { command kubectl --context "kind-$name" "$@"; }

clusters=$(kind get clusters)
if grep -qxF "$name" <<<"$clusters"; then
  kind export kubeconfig --name "$name"
else
  kind create cluster --name "$name" --wait 180s
fi
kind load image-archive dist/plexus-image.tar --name "$name"

installed=$(kubectl -n kube-system get daemonset plexus --ignore-not-found -o name)
kubectl apply -f crds/
kubectl apply -k deploy/overlays/reference-plugins
# The new image has the name of the old one, which running pods keep.
[ -z "$installed" ] || kubectl -n kube-system rollout restart daemonset/plexus
kubectl -n kube-system rollout status daemonset/plexus --timeout=240s
