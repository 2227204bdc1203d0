// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 defines the configuration of stowage-extender,
// extender.config.stowage.dev/v1alpha1: the file that --config names. Decode reads it, sets
// defaults and validates it.
//
// +k8s:deepcopy-gen=package
// +groupName=extender.config.stowage.dev
package v1alpha1
