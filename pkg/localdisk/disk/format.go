// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

// Format names the file system on a device, as blkid does. The zero value means that the
// device has none.
type Format struct {
	// Type is TYPE of blkid ("ext4").
	Type string `json:"type,omitempty"`
	UUID string `json:"uuid,omitempty"`
}

func (f Format) String() string {
	if f.Type == "" {
		return "no file system"
	}
	return f.Type + ":" + f.UUID
}

// Superblock is the result of reading the places of a device where file systems have
// their superblocks.
type Superblock struct {
	// Format is the file system with a valid superblock.
	Format Format
	// Other describes what is there when Format cannot be named, in words that follow
	// "holds": a damaged superblock, several file systems, another format.
	Other string
	// Problem is why the device could not be read; nil if it was. With a problem the
	// other fields are empty.
	Problem *Problem
}

// Blank reports whether the device was read, and nothing known is on it.
func (s *Superblock) Blank() bool { return *s == Superblock{} }

// Holds describes what is on the device, in words that follow "holds".
func (s *Superblock) Holds() string {
	if s.Other != "" {
		return s.Other
	}
	return s.Format.String()
}

// LinkFolder is the folder on the node with the volumes' links to their devices. It is on
// devtmpfs, which is empty after a restart.
const LinkFolder = "/dev/stowage/disks"

// LinkPath is the link of a volume. Names of volumes are unique in a cluster, so nodes
// that share a /dev have different links.
func LinkPath(class, volume string) string { return LinkFolder + "/" + class + "/" + volume }
