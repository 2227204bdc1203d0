#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# No file uses the idioms of hack/prose.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! go test ./hack/prose; then
  echo "write plain technical English: see the lines above, and CONTRIBUTING.md" >&2
  exit 1
fi
