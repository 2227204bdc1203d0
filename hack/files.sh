#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Lists the project's own files that match the given git patterns: tracked and new ones, not
# ignored ones, not ones that were just deleted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while IFS= read -r file; do
  [[ ! -f $file ]] || printf '%s\n' "$file"
done
