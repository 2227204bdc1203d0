// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/json"
	"errors"
)

// Folder is the discovery directory of a class.
type Folder struct {
	Class string
	// HostPath is the directory on the node, Path the same in the provisioner's mount
	// namespace.
	HostPath, Path string
	// Names admits an entry if one of these matches it (path.Match); none admits all.
	Names []string
	// Directories admits plain directories whose names match one of these; none admits
	// no plain directory.
	Directories []string
	Mode        Mode
}

// Known is a slot of which a volume or a record exists.
type Known struct {
	Key      Key
	HostPath string
	Kind     Kind
	Identity Identity
	// Volume is the provisioner's volume of the slot, if there is one: its own uses of the disk
	// do not count as a conflict.
	Volume string
	// Displaced reports whether HostPath is not in the folder of the class: the class had another one
	// when the volume was published.
	Displaced bool
}

// Scan is a request to find what is in the folders.
type Scan struct {
	Folders []Folder
	// Known are examined with the folders' entries, to distinguish a path with nothing there
	// from one that was not examined.
	Known []Known
}

// Scanned answers a Scan.
type Scanned struct {
	// Facts are what was found, by slot. An entry that has a problem is there too.
	Facts map[Key]Fact
	// Trouble has the folders that could not be read, by class. Nothing is known
	// about their slots: none of them counts as missing.
	Trouble map[string]*Problem
}

// ExclusiveOpen is User.What of a use that only an exclusive open of the device shows.
const ExclusiveOpen = "exclusive open"

// User is something on the node that uses a disk.
type User struct {
	// What is "mount", "kubelet", "loop device", "swap", "holder" or ExclusiveOpen.
	What string
	// Where is the mount point, path or device that uses the disk; for ExclusiveOpen, the
	// device itself.
	Where string
}

// String returns words that follow "used by".
func (u User) String() string {
	if u.What == ExclusiveOpen {
		return "something that holds " + u.Where + " exclusively and that mountinfo and sysfs do not show: ZFS, DRBD, an iSCSI target (LIO), a mount in another namespace, or a program"
	}
	return u.What + " " + u.Where
}

// Content is whether a disk holds data, depending on its kind. A file system: anything but
// lost+found. A device: a signature, or any byte that is not zero.
type Content string

// The contents.
const (
	ContentUnknown Content = ""
	ContentNone    Content = "None"
	ContentSome    Content = "Some"
	// ContentSampled: a device has no signature, and its ends and some samples are
	// zero. The other bytes have not been read, so it may hold data.
	ContentSampled Content = "Sampled"
)

// BlankProof is how much of a device is proven to be zero. It is valid until the device is
// written to.
type BlankProof struct {
	// State changes when the device is written to or attached again, and when the node
	// restarts. It is the state before the first byte was read.
	State string `json:"state"`
	// Bytes is how many bytes the device has, Done how many of them, from the start, were
	// read and are zero.
	Bytes int64 `json:"bytes"`
	Done  int64 `json:"done"`
	// Found: the byte at Done is not zero.
	Found bool `json:"found,omitempty"`
}

// Complete reports whether every byte of the device was read and is zero.
func (p BlankProof) Complete() bool { return !p.Found && p.Bytes > 0 && p.Done == p.Bytes }

// ErrBlankProofVoid means that a BlankProof is no longer valid.
var ErrBlankProofVoid = errors.New("the device was written to or attached again, or the node restarted, since it was read")

// BlankProofRequest is a request to read a device until all its bytes are known to be zero.
type BlankProofRequest struct {
	Target Fact
	// From is an earlier proof to resume; the zero value starts at the first byte.
	From BlankProof
	// Rate limits the bytes read per second; 0 is no limit.
	Rate int64
}

// CleanRequest is a request to clean a disk. It is self-contained, so that another process can
// carry it out.
type CleanRequest struct {
	// Target is what is to be cleaned. Its identity is compared with that of what is at its
	// path before the clean, and after external commands again.
	Target Fact
	Mode   Mode
	// Volume is the volume whose data it is, whose own uses of the disk do not count as a
	// conflict.
	Volume string
	// Command is the method and its arguments; empty for the default of kind and
	// mode.
	Command []string
	// Step is where an earlier attempt got to.
	Step string
	// Root is Record.Root.
	Root json.RawMessage
}

// Progress is how far a clean is.
type Progress struct {
	// Method is the method's name.
	Method string
	// Done and Total are in bytes; Total is 0 when it is not known.
	Done, Total int64
	// Step, when it changes, must be on disk before the clean continues.
	Step string
}
