// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring holds manifests/monitoring against what reads it: monitors and rules
// against the types of the Prometheus operator, expressions of rules and dashboard against
// Prometheus' parser and against the metrics of docs/metrics.md, and each alert against
// figures at which it is to fire and others at which it is not.
package monitoring

import (
	// The module of the Prometheus operator has its kinds as CustomResourceDefinitions, which tests
	// install: go.mod names a module only if something of it is imported.
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
)
