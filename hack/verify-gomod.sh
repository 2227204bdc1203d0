#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# go.mod and go.sum, of the product and of the nested modules, say what `go mod tidy` would, and the
# module files for other minors of Kubernetes what hack/minor-gomod.sh would write.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bad=()
while IFS= read -r file; do
  module=$(dirname "$file")
  if ! diff=$(go -C "$module" mod tidy -diff 2>&1); then
    printf '%s\n' "$diff" | grep -E '^(go:|[+-])' | head -n 40 || true
    bad+=("$module")
  fi
done < <(hack/files.sh 'go.mod' '*/go.mod' ':!pkg/kubecompat')

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
for file in pkg/kubecompat/*/go.mod; do
  hack/minor-gomod.sh "$(basename "$(dirname "$file")")" "$made"
done
for name in $({ hack/files.sh 'go-*.mod' 'go-*.sum' && ls "$made"; } | sort -u); do
  if ! diff -u --label "$name" "$name" --label made "$made/$name" | head -n 40; then
    bad+=("$name")
  fi
done

if [[ ${#bad[@]} -gt 0 ]]; then
  echo "not tidy or not derived from go.mod: ${bad[*]}: run hack/update-gomod.sh" >&2
  exit 1
fi
