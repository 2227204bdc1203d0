// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the versioned types of Stowage's scheduler plugin
// arguments, kubescheduler.config.k8s.io/v1: what users write under
// profiles[].pluginConfig[].args. It defaults them and converts them to the
// internal types of package config. DecodeArgs is the entry for plugins.
//
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=stowage.dev/stowage/pkg/apis/config
// +k8s:defaulter-gen=TypeMeta
// +groupName=kubescheduler.config.k8s.io
package v1
