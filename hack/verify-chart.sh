#!/usr/bin/env bash
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

# The Helm chart starts from what manifests are, describes its values, and its files are well-formed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy="$(mktemp -d)"
trap 'rm -rf "$copy"' EXIT

hack/update-chart.sh "$copy"
if ! diff -Nau manifests/charts/stowage/files "$copy"; then
  echo "The chart is not what manifests are. Run hack/update-chart.sh and commit what it writes." >&2
  exit 1
fi
go test -run TestChart ./hack/chartreference
helm=$(hack/tools/install.sh helm.sh/helm/v4/cmd/helm)
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
"$helm" lint --strict --quiet --namespace stowage-system --kube-version "$kubernetes" manifests/charts/stowage
