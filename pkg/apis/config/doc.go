// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds the internal types of Stowage's scheduler plugin
// arguments, in the API group kubescheduler.config.k8s.io.
//
// These are the types that code works with: every field has a value, because
// the versioned types (package v1) are defaulted before they are converted to
// these. Nothing here is serialised; the fields carry no json tags. To obtain
// a value from what the scheduler framework hands a plugin, use v1.DecodeArgs.
//
// +k8s:deepcopy-gen=package
// +groupName=kubescheduler.config.k8s.io
package config
