#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds one of the tools that hack/tools/go.mod pins into bin/tools and prints its path.
# Go's build cache makes that an instant from the second time on.
#
#   goimports=$(hack/tools/install.sh golang.org/x/tools/cmd/goimports)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export GOTOOLCHAIN=local
tool=$1
path=$PWD/bin/tools/$(basename "${tool%/v[0-9]}") # a last element v5 is a version
if ! go -C hack/tools build -v -o "$path" "$tool" 2> >(hack/progress.sh >&2); then
  echo "cannot build $tool, pinned in hack/tools/go.mod; the first build needs the Go module proxy ($(go env GOPROXY))" >&2
  exit 1
fi
printf '%s\n' "$path"
