#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes docs/keys.md from pkg/apis/wellknown. A test of hack/keys compares the two.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

page=$(go run ./hack/keys)
printf '%s\n' "$page" >docs/keys.md
