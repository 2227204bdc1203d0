#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# go.mod and go.sum, of the product and of the nested modules, say what `go mod tidy` would.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bad=()
while IFS= read -r file; do
  module=$(dirname "$file")
  if ! diff=$(go -C "$module" mod tidy -diff 2>&1); then
    printf '%s\n' "$diff" | grep -E '^(go:|[+-])' | head -n 40 || true
    bad+=("$module")
  fi
done < <(hack/files.sh 'go.mod' '*/go.mod')

if [[ ${#bad[@]} -gt 0 ]]; then
  echo "not tidy: ${bad[*]}: run hack/update-gomod.sh" >&2
  exit 1
fi
