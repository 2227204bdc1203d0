// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localpv converts a disk to a PersistentVolume, and back. It defines what the
// provisioner writes to volumes: names, labels, annotations and the finalizer.
//
// Everything here is pure; arguments are never written to.
package localpv
