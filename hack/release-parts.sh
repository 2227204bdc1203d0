#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the images of a release, with their binaries and documents, into a folder. Their names are those in the release: the
# scheduler's have the minor of Kubernetes. `make release` runs it.
#
#   PLATFORMS=linux/amd64 hack/release-parts.sh bin/release/parts v1.2.3 'stowage-csi stowage-controller' 1.36 1.37
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$1 version=$2 others=$3
minors=("${@:4}")

# build SUFFIX IMAGES [VARIABLE=VALUE...]
build() {
  local suffix=$1 images=$2 made=$out/made image file platform
  make images sbom VERSION="$version" TAG="$version" BASE= PUSH= PLATFORMS="$PLATFORMS" IMAGES="$images" ARCHIVES="$made" SBOMS="$made" "${@:3}"
  for image in $images; do
    for file in "$made/$image"*; do
      mv "$file" "$out/$image$suffix${file#"$made/$image"}"
    done
    for platform in ${PLATFORMS//,/ }; do
      platform=${platform/\//-}
      mkdir -p "$out/$platform"
      mv "bin/$platform/$image" "$out/$platform/$image$suffix"
    done
  done
  rmdir "$made"
}

rm -rf "$out"
build '' "$others"
for minor in "${minors[@]}"; do
  build "-kube$minor" stowage-scheduler KUBE="$minor"
done
