#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Go files are formatted as gofmt -s and goimports do it, own imports in the last group.
# Generated files stay as their generators write them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(hack/files.sh '*.go' ':!*/zz_generated.*')
goimports=$(hack/tools/install.sh golang.org/x/tools/cmd/goimports)

unformatted=$(
  gofmt -s -l "${files[@]}"
  "$goimports" -format-only -local stowage.dev/stowage -l "${files[@]}"
)
if [[ -n $unformatted ]]; then
  sort -u <<<"$unformatted"
  echo "these files are not formatted: run hack/update-format.sh" >&2
  exit 1
fi
