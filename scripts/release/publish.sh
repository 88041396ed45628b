#!/usr/bin/env bash
# What the release workflow does in a registry with the files of a release. cosign takes its identity from the
# environment: the workflow's, or a key (COSIGN_KEY) in the test.
set -euo pipefail

usage="usage: scripts/release/publish.sh sign REFERENCE... | chart ARCHIVE REPOSITORY [FLAG of helm...] | checksums DIRECTORY"
command=${1:?$usage}
shift
case $command in
sign) # images by digest, with each architecture
  for reference in "$@"; do cosign sign --yes --recursive "$reference"; done
  ;;
chart) # pushes it to oci://REPOSITORY, and signs it
  archive=$1 repository=$2
  pushed=$(helm push "$archive" "oci://$repository" "${@:3}" 2>&1)
  echo "$pushed"
  digest=$(sed -n 's/^Digest: //p' <<<"$pushed")
  name=$(helm show chart "$archive" | sed -n 's/^name: //p')
  cosign sign --yes "$repository/$name@${digest:?helm printed no digest}"
  ;;
checksums)
  cosign sign-blob --yes --bundle "$1/SHA256SUMS.sigstore.json" "$1/SHA256SUMS"
  ;;
*)
  echo "$usage" >&2
  exit 2
  ;;
esac
