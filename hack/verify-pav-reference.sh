#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails when docs/pav-reference.md is not what update-pav-reference.sh writes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy="$(mktemp)"
trap 'rm -f "${copy}"' EXIT

hack/update-pav-reference.sh "${copy}"
if ! diff -u docs/pav-reference.md "${copy}"; then
  echo "The reference is out of date. Run hack/update-pav-reference.sh and commit what it writes." >&2
  exit 1
fi
