#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Imports go down the layers of hack/layers/table.go only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! go test ./hack/layers; then
  echo "an import breaks a layer: see the lines above, and hack/layers/table.go for the rules" >&2
  exit 1
fi
