// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

// The module of the Prometheus operator has its kinds as CustomResourceDefinitions, which tests
// install: go.mod names a module only if something of it is imported.
import _ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
