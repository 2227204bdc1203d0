#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Go files begin with the two-line header; scripts have it below #!, generated code below its
# build tag.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copyright='Copyright The Stowage Authors.'
license='SPDX-License-Identifier: Apache-2.0'

bad=()
while IFS= read -r file; do
  comment='#' above='^#!|^# syntax='
  case $file in
    */zz_generated.*) comment='//' above='^//go:build|^// \+build|^$' ;; # as code generators write it
    *.go) comment='//' above='^never$' ;;
  esac
  want=$(printf '%s %s\n%s %s' "$comment" "$copyright" "$comment" "$license")
  have=$(head -n 8 "$file" | grep -vE "$above" | sed -n 1,2p || true)
  [[ $have == "$want" ]] || bad+=("$file")
done < <(hack/files.sh '*.go' '*.sh' '.ci/run' 'Makefile' '*.mk' '*Dockerfile')

if [[ ${#bad[@]} -gt 0 ]]; then
  printf '%s\n' "${bad[@]}"
  printf 'these files must begin with the header (# instead of // in scripts):\n// %s\n// %s\n' "$copyright" "$license" >&2
  exit 1
fi
