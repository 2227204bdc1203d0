#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Tidies go.mod and go.sum of the product and of the nested modules, and writes the module files
# for other minors of Kubernetes, go-1.36.mod and its like, from go.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

while IFS= read -r file; do
  go -C "$(dirname "$file")" mod tidy
done < <(hack/files.sh 'go.mod' '*/go.mod' ':!pkg/kubecompat')

for file in pkg/kubecompat/*/go.mod; do
  hack/minor-gomod.sh "$(basename "$(dirname "$file")")" .
done
