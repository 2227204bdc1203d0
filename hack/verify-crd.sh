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
# Only what is generated is compared: the kustomizations are not.
if ! diff -Naur --exclude=kustomization.yaml manifests/crd "${copy}"; then
  echo "The schema is out of date. Run hack/update-crd.sh and commit what it writes." >&2
  exit 1
fi
