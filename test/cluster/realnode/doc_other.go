// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Package realnode runs Kubernetes clusters with real nodes, on Linux.
package realnode
