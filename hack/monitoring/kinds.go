// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	// The module of the Prometheus operator has its kinds as CustomResourceDefinitions, which tests
	// install: go.mod names a module only if something of it is imported.
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
)
