// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 defines the custom resources of stowage.dev/v1alpha1: LocalDiskReport, in
// which a node's provisioner reports the disks in its discovery directories; LocalDisk, a disk
// of a node; LocalDiskTombstone, a disk whose volume was removed while it was unreachable;
// PavProvisioner, a volume provisioner written as pod templates; and PavVolume, the
// state of a volume of one.
//
// The report of a node with very many disks has several pages; Pages, PageName and Summarize
// create them. The schemas in manifests/crd are generated from this package
// (hack/update-crd.sh).
//
// +k8s:deepcopy-gen=package
// +groupName=stowage.dev
package v1alpha1
