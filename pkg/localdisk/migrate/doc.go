// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover moves volumes between provisioners: it takes over those of
// sig-storage-local-static-provisioner (here: the reference), and lets go of those of
// Stowage's agents.
//
// Both are for an administrator's hand, not for agents, which see the volumes of their
// own node alone and could not write those of others. Each comes in two halves: one
// finds out and says what will be done, the other does it to one volume, in one write
// that goes through only if the volume is still what was found. So both can be broken
// off and run again at any time.
//
// Nothing here touches a disk. What disk a volume stands for, the node's agent writes
// down when it first sees the volume.
package migrate
