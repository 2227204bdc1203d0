// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests has the rights and the admission policies that the parts of Stowage need, as they
// are installed: kubectl stowage status compares a cluster with them.
package manifests

import "embed"

// Files are the manifests with RBAC objects and admission policies, by their paths in this folder.
//
//go:embed provisioner/rbac.yaml provisioner/startup-taint/rbac.yaml provisioner/policy-*.yaml
//go:embed controller/base/rbac.yaml controller/bind-now.yaml controller/pv-binder.yaml controller/cleaning-jobs.yaml controller/pav-volumes.yaml controller/pav-policy.yaml
//go:embed csi/rbac.yaml csi/policy-stagings.yaml
//go:embed scheduler/second/rbac.yaml scheduler/only/rbac.yaml scheduler/direct-binding/role.yaml policies/scheduler-name.yaml
//go:embed extender/base/rbac.yaml extender/full/rbac.yaml extender/base/policy.yaml
var Files embed.FS
