#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fails when manifests/crd is not what update-crd.sh writes. Generates into a copy: the
# checkout stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy="$(mktemp -d)"
trap 'rm -rf "${copy}"' EXIT

hack/update-crd.sh "${copy}"
for file in manifests/crd/*.yaml "${copy}"/*.yaml; do
  # Only what is generated is compared: the folder may hold other manifests.
  [[ "$(basename "${file}")" == stowage.dev_* ]] || continue
  if ! diff -Nau "manifests/crd/$(basename "${file}")" "${copy}/$(basename "${file}")"; then
    echo "The schema is out of date. Run hack/update-crd.sh and commit what it writes." >&2
    exit 1
  fi
done
