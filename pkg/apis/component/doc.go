// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package component has what the configurations of stowage-controller and stowage-extender have
// in common: fields, defaults, validation and decoding. Unlike the types of
// k8s.io/component-base/config it has no fields that the components ignore.
//
// +k8s:deepcopy-gen=package
package component
