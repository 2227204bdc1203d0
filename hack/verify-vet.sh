#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# go vet finds nothing to say about any package, tests included.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! go vet ./...; then
  echo "go vet ./... has complaints: repair the lines above" >&2
  exit 1
fi
