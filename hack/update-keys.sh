#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes docs/keys.md from the constants of the source. A test of hack/keys holds it to them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

page=$(go run ./hack/keys)
printf '%s\n' "$page" >docs/keys.md
