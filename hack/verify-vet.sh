#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# go vet finds nothing to say about any package, tests included.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for module in . hack/images hack/monitoring; do
  if ! go -C "$module" vet ./...; then
    echo "go -C $module vet ./... has complaints: repair the lines above" >&2
    exit 1
  fi
done
for module in pkg/kubecompat/*; do
  minor=$(basename "$module")
  modfile=go-$minor.mod
  [[ -f $modfile ]] || modfile=go.mod # the minor of go.mod has no other
  if ! go vet -modfile="$modfile" stowage.dev/kubecompat/...; then
    echo "go vet -modfile=$modfile stowage.dev/kubecompat/... has complaints: repair the lines above" >&2
    exit 1
  fi
done
