#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs every hack/verify-*.sh, all of them even when one fails, and checks that none changed
# the tree. With arguments, only the named ones: hack/verify.sh format layers
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# A digest of everything that git would show: changes of tracked files, and untracked files.
tree() {
  {
    git diff HEAD
    git ls-files --others --exclude-standard -z | xargs -0 --no-run-if-empty sha256sum
  } | sha256sum
}

if [[ $# -gt 0 ]]; then
  scripts=("${@/#/hack/verify-}")
  scripts=("${scripts[@]/%/.sh}")
else
  scripts=(hack/verify-*.sh)
fi

before=$(tree) || exit 1
failed=()
for script in "${scripts[@]}"; do
  start=$SECONDS
  if output=$("$script" 2>&1); then
    printf 'ok   %-16s %ds\n' "$(basename "$script" .sh | sed 's/^verify-//')" $((SECONDS - start))
  else
    printf 'FAIL %s\n%s\n' "$script" "$output"
    failed+=("$script")
  fi
done

if [[ $(tree) != "$before" ]]; then
  printf 'FAIL the tree changed while it was verified; git sees:\n'
  git status --short
  failed+=("clean tree")
fi

if [[ ${#failed[@]} -gt 0 ]]; then
  printf '\n%d of %d checks failed: %s\n' ${#failed[@]} $((${#scripts[@]} + 1)) "$(basename -a "${failed[@]}" | paste -sd' ')" >&2
  exit 1
fi
