#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the campaigns, which are the tests that call campaign.Begin, in full strength: one after the
# other, each in a separate process that may take TIMEOUT. Prints the last line of the running
# one every 30 seconds, keeps the logs in _artifacts/soak, continues after a failure, and exits
# with 1 if a campaign failed. With -list it only prints the campaigns.
#
#   TIMEOUT=45m hack/soak.sh [-list] [REGEXP]    such as faults.TestStress
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

list=
[[ ${1-} == -list ]] && list=1 && shift
logs=_artifacts/soak

campaigns=()
while IFS= read -r campaign; do
  [[ $campaign =~ ${1-} ]] || continue
  if [[ $campaign == test/e2e* && $(id -u) -ne 0 ]]; then
    echo "left out $campaign: needs root" >&2
    continue
  fi
  campaigns+=("$campaign")
done < <(find cmd pkg test -name '*_test.go' -exec awk '
  /^(func|package) / { test = match($2, /^Test[A-Za-z0-9_]*/) ? substr($2, 1, RLENGTH) : "" }
  /campaign\.Begin\(/ && test != "" { folder = FILENAME; sub(/\/[^\/]*$/, "", folder); print folder "." test; test = "" }
' {} + | LC_ALL=C sort)

if [[ ${#campaigns[@]} -eq 0 ]]; then
  echo "no campaign matches ${1-}" >&2
  exit 1
fi
if [[ -n $list ]]; then
  printf '%s\n' "${campaigns[@]}"
  exit
fi

# run runs a campaign; its output goes to a log.
run() {
  local folder=${1%.*}
  STOWAGE_SOAK=1 go test -v -count=1 -timeout="${TIMEOUT:-45m}" -run="^${1##*.}\$" "./$folder" >"$2" 2>&1
}

mkdir -p "$logs"
results=() failed=0
for campaign in "${campaigns[@]}"; do
  echo "$((${#results[@]} + 1)) of ${#campaigns[@]}: $campaign, at most ${TIMEOUT:-45m}"
  log=$logs/${campaign//\//-}.log begin=$SECONDS
  exec 3< <(run "$campaign" "$log" && echo passed || echo "FAILED, see $log")
  until read -r -t 30 -u 3 result; do
    # Without the lines that components log.
    printf '  %ds  %.150s\n' $((SECONDS - begin)) "$(tail -n 500 "$log" | grep -vE '^[IWEF][0-9]{4} ' | tail -n 1)"
  done
  if [[ $result != passed ]]; then
    failed=1
    tail -n 60 "$log"
  fi
  results+=("$(date +%F)  $((SECONDS - begin))s  $campaign  $result")
  echo "  ${results[-1]}"
done
printf '\n'
printf '%s\n' "${results[@]}"
exit $failed
