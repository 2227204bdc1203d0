// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish turns a disk into a PersistentVolume, and reads one back. It owns
// what the agent writes on volumes: names, labels, annotations and the finalizer.
//
// Everything here is pure; arguments are never written to.
package localpv
