#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# go vet finds nothing to say about any package, tests included.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check() {
  if ! go -C "$1" vet "${@:2}"; then
    echo "go -C $1 vet ${*:2} has complaints: repair the lines above" >&2
    exit 1
  fi
}

check . ./... stowage.dev/kubecompat/...
check hack/release ./...
check hack/monitoring ./...
