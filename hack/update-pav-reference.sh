#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes docs/pav-reference.md from manifests/crd/pav and the packages below pkg/pav. With an argument,
# writes that file instead (used by verify-pav-reference.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

page=$(go run ./hack/pavreference)
printf '%s\n' "$page" >"${1:-docs/pav-reference.md}"
