#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Turns the package names that `go build -v` prints into one short line of progress, and
# passes every other line (compiler errors) on to standard error. A terminal sees a line that
# changes; a log gets a line every 15 seconds. Prints nothing when nothing had to be compiled.
#
#   go build -v ./cmd/scheduler 2>&1 | hack/progress.sh
#
# With the arguments of the build, except -o, it also prints how many packages there are to compile.
#
#   go build -v -o bin/ ./cmd/scheduler 2>&1 | hack/progress.sh ./cmd/scheduler
set -euo pipefail

build=("$@")
interval=15
terminal=
[[ -t 1 ]] && terminal=1 interval=1

compiled=0 total=0 shown=-$interval last='' line='' part=''

# Prints the progress unless it has been printed within the interval. To count packages takes seconds,
# so it is not done for short builds, and the build compiles some meanwhile: the total is not exact.
show() {
  ((compiled > 0 && SECONDS - shown >= interval)) || return 0
  if ((total == 0 && SECONDS > 2 && ${#build[@]} > 0)); then
    total=$((compiled + $(go list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "${build[@]}" 2>/dev/null | wc -l)))
  fi
  shown=$SECONDS
  local of=''
  ((compiled > total)) || of=" of about $total"
  if [[ -n $terminal ]]; then
    printf '\r\033[K  %4ds  %d%s packages compiled, at %.60s' "$SECONDS" "$compiled" "$of" "$last"
  else
    printf '  %4ds  %d%s packages compiled, at %s\n' "$SECONDS" "$compiled" "$of" "$last"
  fi
}

while true; do
  status=0
  IFS= read -r -t 1 line || status=$?
  part+=$line
  if ((status > 128)); then # nothing within the second
    show
    continue
  elif ((status > 0)) && [[ -z $part ]]; then
    break
  fi
  line=$part part=''
  if [[ $line =~ ^[A-Za-z0-9_.~/@-]+$ ]]; then
    compiled=$((compiled + 1)) last=$line
    show
    continue
  fi
  [[ -n $terminal ]] && printf '\r\033[K'
  printf '%s\n' "$line" >&2
done
[[ -n $terminal ]] && printf '\r\033[K'
if ((compiled > 0)); then
  printf '  %4ds  %d packages compiled\n' "$SECONDS" "$compiled"
fi
