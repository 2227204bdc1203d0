#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# go vet, then golangci-lint at the version of hack/tools/go.mod with .golangci.yml. Building
# the linter takes some minutes the first time. Arguments go to `golangci-lint run`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/verify-vet.sh
if ! golangci_lint=$(hack/tools/install.sh github.com/golangci/golangci-lint/v2/cmd/golangci-lint); then
  echo "golangci-lint could not be installed, so only go vet ran; no other target needs it" >&2
  exit 1
fi
for module in . hack/release hack/monitoring; do
  (cd "$module" && "$golangci_lint" run "$@")
done
