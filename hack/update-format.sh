#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Formats every Go file but the generated ones with gofmt -s and goimports.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(hack/files.sh '*.go' ':!*/zz_generated.*')
goimports=$(hack/tools/install.sh golang.org/x/tools/cmd/goimports)
gofmt -s -w "${files[@]}"
"$goimports" -format-only -local stowage.dev/stowage -w "${files[@]}"
