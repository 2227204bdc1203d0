// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskrecord stores the node's records of its disks: one file per disk identity, in a
// folder that survives the provisioner and a restart of the node. What Put has acknowledged
// survives a power cut; an unacknowledged write is either complete or absent. A file that
// cannot be read is kept, and blocks only the disk it was written for.
package diskrecord
