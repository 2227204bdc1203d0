#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Finds every Fuzz function below the given folders and runs each for FUZZTIME.
# FUZZ narrows them to the names that match a regular expression.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${FUZZTIME:-20s}
found=()
while IFS=: read -r file declaration; do
  name=${declaration#func }
  name=${name%%(*}
  [[ $name =~ ${FUZZ:-.} ]] && found+=("$(dirname "$file") $name")
done < <([[ $# -eq 0 ]] || grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' "$@" | sort)

if [[ ${#found[@]} -eq 0 ]]; then
  echo "no fuzz tests${FUZZ:+ match $FUZZ}"
  exit 0
fi

failed=()
for i in "${!found[@]}"; do
  read -r folder name <<<"${found[i]}"
  echo "[$((i + 1))/${#found[@]}] $name in $folder for $fuzztime"
  go test "./$folder" -run='^$' -fuzz="^$name\$" -fuzztime="$fuzztime" || failed+=("$folder $name")
done

if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  echo "each left its input under testdata/fuzz of its package: fix the fault and commit the input as a seed" >&2
  exit 1
fi
