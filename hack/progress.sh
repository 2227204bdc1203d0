#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Turns the package names that `go build -v` prints into one short line of progress, and
# passes every other line (compiler errors) on. A terminal sees a line that changes; a log
# gets a line every 15 seconds. Prints nothing when nothing had to be compiled.
#
#   go build -v ./cmd/scheduler 2>&1 | hack/progress.sh
set -euo pipefail

interval=15
terminal=
[[ -t 1 ]] && terminal=1 interval=1

compiled=0 shown=-$interval last=
while IFS= read -r line; do
  if [[ ! $line =~ ^[A-Za-z0-9_.~/@-]+$ ]]; then
    [[ -n $terminal ]] && printf '\r\033[K'
    printf '%s\n' "$line"
    continue
  fi
  compiled=$((compiled + 1)) last=$line
  ((SECONDS - shown < interval)) && continue
  shown=$SECONDS
  if [[ -n $terminal ]]; then
    printf '\r\033[K  %4ds  %d packages compiled, at %.60s' "$SECONDS" "$compiled" "$last"
  else
    printf '  %4ds  %d packages compiled, at %s\n' "$SECONDS" "$compiled" "$last"
  fi
done
[[ -n $terminal ]] && printf '\r\033[K'
if ((compiled > 0)); then
  printf '  %4ds  %d packages compiled\n' "$SECONDS" "$compiled"
fi
