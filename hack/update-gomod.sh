#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Tidies go.mod and go.sum of the product and of the nested modules.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

while IFS= read -r file; do
  go -C "$(dirname "$file")" mod tidy
done < <(hack/files.sh 'go.mod' '*/go.mod')
