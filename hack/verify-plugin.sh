#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# The kubectl plugin compiles for the other operating systems of users. The first run compiles all that it
# imports, which takes minutes; later ones take seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for system in darwin windows; do
  if ! CGO_ENABLED=0 GOOS=$system GOARCH=amd64 go vet ./cmd/kubectl-stowage; then
    echo "the kubectl plugin does not compile for $system: repair the lines above" >&2
    exit 1
  fi
done
