// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskrecord keeps what a node remembers of its disks: one file per disk
// identity, in a folder that outlives the agent and the node's restart. What Put
// has acknowledged survives a power cut; what it has not is there as a whole or
// not at all. A file that cannot be read is left where it is, and speaks against
// the disk it was written for and against no other.
package diskrecord
