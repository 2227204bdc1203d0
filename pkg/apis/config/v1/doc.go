// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 defines the arguments of Stowage's scheduler plugin,
// kubescheduler.config.k8s.io/v1: what users write under
// profiles[].pluginConfig[].args. It sets defaults and validates. DecodeArgs is the
// entry for plugins.
//
// The types are also registered as internal ones, to which kube-scheduler converts
// arguments: no field differs, so there is nothing to convert.
//
// +k8s:deepcopy-gen=package
// +k8s:defaulter-gen=TypeMeta
// +groupName=kubescheduler.config.k8s.io
package v1
