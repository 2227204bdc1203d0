// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/json"
	"errors"
)

// Folder is where the disks of a class are looked for.
type Folder struct {
	Class string
	// HostPath is the directory on the node, Path where the agent has it.
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
	// Volume is the name of our volume for it, if there is one: the node's uses of
	// a disk that are the volume's own are no reason against it.
	Volume string
}

// Scan asks what lies in the folders.
type Scan struct {
	Folders []Folder
	// Known are looked at with the folders' entries, so that a path that leads
	// nowhere is told from one that was not looked at.
	Known []Known
}

// Scanned answers a Scan.
type Scanned struct {
	// Facts are what was found, by slot. An entry that has a problem is there too.
	Facts map[Key]Fact
	// Trouble has the folders that could not be read, by class. Nothing is known
	// of their slots: none of them is missing.
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

// Content is whether something holds data, by the rule that fits its kind. A file
// system: anything but lost+found. A device: a signature, or any byte that is not zero.
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

// BlankProof is how much of a device is proven to be zero. It holds as long as the
// device is not written to.
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

// ErrBlankProofVoid says that the device was written to or attached again, or the node has
// restarted, since the bytes of a BlankProof were read.
var ErrBlankProofVoid = errors.New("the device was written to or attached again, or the node restarted, since it was read")

// BlankProofRequest asks for a device to be read until all its bytes are known to be
// zero.
type BlankProofRequest struct {
	Target Fact
	// From is an earlier proof to go on with; the zero value starts at the first byte.
	From BlankProof
	// Rate is how many bytes to read per second at most; 0 is no limit.
	Rate int64
}

// CleanRequest asks for a disk to be cleaned. It is self-contained, so that it can be
// carried out in another process.
type CleanRequest struct {
	// Target is what is to be cleaned. Whoever cleans checks first, and for external
	// commands afterwards too, that its identity is what lies at its path.
	Target Fact
	Mode   Mode
	// Volume is the volume whose data it is, for those who look who uses the disk.
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
	// Step, when it changes, has to be on disk before the clean goes on.
	Step string
}
