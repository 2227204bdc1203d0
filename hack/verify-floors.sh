#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Imports go down the floors of hack/floors/table.go only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! go test ./hack/floors; then
  echo "an import breaks a floor: see the lines above, and hack/floors/table.go for the rules" >&2
  exit 1
fi
