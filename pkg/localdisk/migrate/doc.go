// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate moves volumes between provisioners: it adopts those of
// sig-storage-local-static-provisioner (here: the reference), and releases those of Stowage.
//
// Both are for administrators, and not for provisioners, which see the volumes of their own
// node only and may not write those of others. Each has two halves: one finds volumes and
// decides about each, the other changes one volume, with one conditional write that fails if
// the volume has changed since. So both can be interrupted and repeated at any time.
//
// Nothing here touches a disk. The node's provisioner records the disk of an adopted volume
// when it first observes the volume.
package migrate
