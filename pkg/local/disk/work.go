// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import "encoding/json"

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

// User is something on the node that uses a disk.
type User struct {
	// What is "mount", "kubelet", "loop device", "swap", "holder" or "open".
	What string
	// Where is the mount point, path or device that uses the disk.
	Where string
}

func (u User) String() string { return u.What + " " + u.Where }

// Content is whether something holds data, by the rule that fits its kind and
// mode. A file system: anything but lost+found. A device of mode Filesystem: a
// signature. A device of mode Block: a signature, or any bit set in its first or
// last MiB.
type Content string

// The contents.
const (
	ContentUnknown Content = ""
	ContentNone    Content = "None"
	ContentSome    Content = "Some"
)

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
