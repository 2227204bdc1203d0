// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package disk has the types that the packages below localdisk share: what is at a path
// (Fact), which disk it is (Identity, Place), the node's record of it (Record), its volume
// (Volume), and requests to find and clean disks (Scan, CleanRequest). It depends on neither
// devices nor Kubernetes.
package disk
