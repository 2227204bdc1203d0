#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fails when the generated code of the API packages is not what update-codegen.sh
# writes. Generates into a copy: the checkout stays as it is.

set -o errexit -o nounset -o pipefail

repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
copy="$(mktemp -d)"
trap 'rm -rf "${copy}"' EXIT

cp -r "${repo}/go.mod" "${repo}/go.sum" "${repo}/pkg" "${copy}"
"${repo}/hack/update-codegen.sh" "${copy}"

if ! diff -Naur "${repo}/pkg/apis" "${copy}/pkg/apis"; then
  echo "Generated code is out of date. Run hack/update-codegen.sh and commit what it writes." >&2
  exit 1
fi
