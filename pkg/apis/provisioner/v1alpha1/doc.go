// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 defines the configuration of the local provisioner,
// provisioner.config.stowage.dev/v1alpha1: the data of a ConfigMap, one key for each field, each
// value YAML. The keys of the reference provisioner (sig-storage-local-static-provisioner) are
// unchanged, so that a migration keeps the ConfigMap; docs/provisioner-configuration.md has
// every key. Decode reads it strictly, sets defaults and validates it, and reports all errors
// at once. The package does not read the node or the cluster.
//
// +k8s:deepcopy-gen=package
// +groupName=provisioner.config.stowage.dev
package v1alpha1
