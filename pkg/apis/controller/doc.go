// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller holds the internal type of stowage-controller's configuration,
// in the API group controller.config.stowage.dev.
//
// This is the type that code works with: every field has a value, because the
// versioned type (package v1alpha1) is defaulted before it is converted to this.
// Nothing here is serialised. To obtain one from a file, use v1alpha1.Decode.
//
// +k8s:deepcopy-gen=package
// +groupName=controller.config.stowage.dev
package controller
