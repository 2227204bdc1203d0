#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# No file names a folder of one machine: home folders, temporary and work folders.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Where a path may begin: not in the middle of another path, a URL or a regular expression.
begin='(^|[[:space:]"'\''`=:,(<])'
mapfile -t files < <(hack/files.sh)
if grep -nIE "$begin/(root|work|tmp|Users|private|home/[a-z])(/|[[:space:]\"'\`]|\$)" "${files[@]}"; then
  echo "these lines name paths of one machine: use t.TempDir, os.UserCacheDir, mktemp or a path such as /mnt/disks" >&2
  exit 1
fi
