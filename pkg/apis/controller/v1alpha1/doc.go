// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the versioned type of stowage-controller's configuration,
// controller.config.stowage.dev/v1alpha1: the file that --config names. It defaults
// it and converts it to the internal type. Decode is the entry.
//
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=stowage.dev/stowage/pkg/apis/controller
// +k8s:defaulter-gen=TypeMeta
// +groupName=controller.config.stowage.dev
package v1alpha1
