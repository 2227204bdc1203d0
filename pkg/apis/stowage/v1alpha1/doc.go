// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the objects that Stowage keeps in the cluster, of
// stowage.dev/v1alpha1: LocalDiskReport, in which the agent of a node tells what it
// found in its discovery directories and what it does about it.
//
// Of a node with very many disks the report has several pages; Pages, PageName and
// Summarize make them. The schemas in manifests/crd are generated from this package
// (hack/update-crd.sh).
//
// +k8s:deepcopy-gen=package
// +groupName=stowage.dev
package v1alpha1
