// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds the internal types of Stowage's scheduler plugin
// arguments, in the API group kubescheduler.config.k8s.io.
//
// Code uses these types: every field has a value, because
// the versioned types (package v1) are defaulted before they are converted to
// these. They are not serialised; the fields have no json tags. v1.DecodeArgs
// decodes the arguments that the scheduler framework passes to a plugin.
//
// +k8s:deepcopy-gen=package
// +groupName=kubescheduler.config.k8s.io
package config
