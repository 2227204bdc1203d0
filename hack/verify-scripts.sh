#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Shell scripts parse, can be executed, and stop at the first error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bad=()
while IFS= read -r script; do
  bash -n "$script" || bad+=("$script: does not parse")
  [[ -x $script ]] || bad+=("$script: is not executable: chmod +x it")
  [[ $(head -n 1 "$script") == '#!/usr/bin/env bash' ]] || bad+=("$script: must begin with #!/usr/bin/env bash")
  grep -qE '^set (-e?uo|-o errexit -o nounset -o) pipefail$' "$script" || bad+=("$script: must say set -euo pipefail")
done < <(hack/files.sh '*.sh' '.ci/run')

if [[ ${#bad[@]} -gt 0 ]]; then
  printf '%s\n' "${bad[@]}" >&2
  exit 1
fi
