// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// State is whether a disk may hold data.
type State string

// The states. A disk that was never published has no record.
const (
	// Clean: by a finished clean, or an inspection that found the disk empty.
	Clean State = "Clean"
	// Published: written before the volume is created. From then on the disk is dirty, even if
	// the volume is deleted.
	Published State = "Published"
	// Cleaning has begun; Record.Step is its progress.
	Cleaning State = "Cleaning"
	// Retained: the volume is gone, and its policy was Retain or it was not released. The disk
	// is neither cleaned nor published until it is empty or an administrator acknowledges its
	// data.
	Retained State = "Retained"
)

// Dirty reports whether a disk in this state may hold data.
func (s State) Dirty() bool { return s != Clean }

// Policy is a volume's persistentVolumeReclaimPolicy.
type Policy string

// The policies.
const (
	Delete        Policy = "Delete"
	Retain        Policy = "Retain"
	RecyclePolicy Policy = "Recycle"
)

// Record is the node's record of a disk, by its identity. It survives the provisioner, the
// volume and a restart of the node.
type Record struct {
	Identity Identity `json:"identity"`
	Key      Key      `json:"key"`
	HostPath string   `json:"hostPath"`
	Kind     Kind     `json:"kind"`
	Mode     Mode     `json:"mode"`
	State    State    `json:"state"`
	// Cluster is the UID of the namespace kube-system of the cluster that published the
	// disk. In another cluster, or without it, the disk is neither cleaned nor published.
	Cluster string `json:"cluster"`
	// Volume is the volume last published of this disk, UID its UID once known.
	Volume string `json:"volume,omitempty"`
	UID    string `json:"uid,omitempty"`
	// Phase is Volume.Seen as last observed; empty if the volume never was. It decides
	// what becomes of the disk when the volume is gone.
	Phase Phase `json:"phase,omitempty"`
	// Missed is when the volume was first observed to be gone; zero while it exists.
	Missed time.Time `json:"missed,omitzero"`
	// Generation is part of the volume's name. It is incremented when a volume vanished without
	// being released.
	Generation int64 `json:"generation,omitempty"`
	// Policy is the volume's reclaim policy as last seen.
	Policy Policy `json:"policy,omitempty"`
	// Step is where a clean resumes; its meaning depends on the method.
	Step string `json:"step,omitempty"`
	// Root is the state of a file system's root when it was first published (owner, mode,
	// attributes), as files.Root.Record returned it.
	Root json.RawMessage `json:"root,omitempty"`
	// Filesystem is the file system of a device whose volume has mode Filesystem: the zero
	// value if the device was blank when it was published and none was observed since, nil if
	// unknown. What it points to is never changed.
	Filesystem *Format `json:"filesystem,omitempty"`
	// Formatting is the file system that the provisioner is making on the device; nil if it is
	// making none. The disk is Clean, and is not published before mkfs has finished, when this
	// becomes Filesystem.
	Formatting *Format `json:"formatting,omitempty"`
	// Attachment is Fact.Attachment when the disk was last known to be as it is published:
	// empty, or with Accepted data. It is empty if unknown, and from the first claim on, whose
	// data is expected on the disk.
	Attachment Attachment `json:"attachment,omitempty"`
	// Accepted: an administrator or the class has the disk published with its data.
	Accepted bool `json:"accepted,omitempty"`
	// Updated is when the record was last written.
	Updated time.Time `json:"updated"`
}

// Made returns the file system that the provisioner has made on the device, and to which no claim
// has written; nil if there is none.
func (r *Record) Made() *Format {
	made := r.Filesystem != nil && r.Filesystem.Type != "" && r.Kind == Device && r.Mode == Filesystem && !r.Accepted
	if made && (r.State == Clean || r.State == Published && r.Unclaimed()) {
		return r.Filesystem
	}
	return nil
}

// Interrupted reports whether a device may hold what an interrupted mkfs of Formatting has left:
// its file system, since a valid superblock does not prove that mkfs has finished, or nothing but
// an invalid superblock of its type.
func (r *Record) Interrupted(found Superblock) bool {
	if r == nil || r.Formatting == nil {
		return false
	}
	return found.Format == *r.Formatting || found.Other != "" && found.Other == invalidSuperblocks[r.Formatting.Type]
}

// invalidSuperblocks are Superblock.Other of a device with nothing but an invalid superblock, by
// type of file system.
var invalidSuperblocks = map[string]string{
	"ext2": "ext2/ext3/ext4/jbd at byte 1080", "ext3": "ext2/ext3/ext4/jbd at byte 1080", "ext4": "ext2/ext3/ext4/jbd at byte 1080",
	"xfs": "xfs at byte 0",
}

// Unclaimed reports whether the volume was never observed to have a claim.
func (r *Record) Unclaimed() bool { return r.Phase == "" || r.Phase == PhaseAvailable }

// Acknowledgement names the data that a volume left on the disk; see AcknowledgementOf.
func (r *Record) Acknowledgement() string { return r.AcknowledgementAs(r.Identity) }

// AcknowledgementAs names the same data on a disk that has another identity now.
func (r *Record) AcknowledgementAs(identity Identity) string {
	volume := r.UID
	if volume == "" {
		volume = fmt.Sprintf("generation-%d", r.Generation)
	}
	return AcknowledgementOf(identity, volume)
}

// AcknowledgementOf names data by the identity of its disk and by its origin: the UID of the
// volume that wrote it, the generation if that UID is unknown, or the Attachment with which
// the disk was first found. Annotations by which an administrator or the controller allows
// something list such names, separated by commas. A name does not match the same disk again
// after it was published: its next volume has another UID.
func AcknowledgementOf(identity Identity, source string) string {
	return strings.ReplaceAll(string(identity)+"/"+source, ",", "%2C")
}
