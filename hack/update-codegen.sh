#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes the generated Go code of the API packages: deep copies, defaults and
# conversions. Packages request it by the usual +k8s:...-gen tags in doc.go.
# With an argument, writes below that folder instead of the checkout (used by
# verify-codegen.sh); it must hold a copy of go.mod, go.sum and pkg/.

set -o errexit -o nounset -o pipefail

readonly CODE_GENERATOR="k8s.io/code-generator/cmd"
readonly CODE_GENERATOR_VERSION="v0.37.1"

repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly header="${repo}/hack/boilerplate.go.txt"
cd "${1:-${repo}}"

# packages TAG prints the packages whose doc.go carries the tag, as ./paths.
packages() {
  { grep -rl --include=doc.go "^// +k8s:$1" pkg/apis || true; } | xargs -r -n1 dirname | sed 's|^|./|' | sort
}

# generate GENERATOR TAG writes zz_generated.GENERATOR.go in each tagged package.
generate() {
  local generator="$1" tag="$2" output="$3" found
  found="$(packages "${tag}")"
  [[ -n "${found}" ]] || return 0
  # shellcheck disable=SC2086 # one argument a package
  go run "${CODE_GENERATOR}/${generator}@${CODE_GENERATOR_VERSION}" \
    --go-header-file "${header}" --output-file "${output}" ${found}
}

find pkg/apis -name 'zz_generated.*.go' -delete
generate deepcopy-gen   deepcopy-gen=package zz_generated.deepcopy.go
generate defaulter-gen  defaulter-gen=       zz_generated.defaults.go
generate conversion-gen conversion-gen=      zz_generated.conversion.go
