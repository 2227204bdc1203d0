// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// state is the state of a volume's root, without its entries.
type state struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Mode are the permission bits, with set-ID and sticky.
	Mode uint32 `json:"mode"`
	// Flags are inode flags, of flagsKept.
	Flags uint32 `json:"flags,omitempty"`
	// Project is what project quotas count the root to.
	Project uint32 `json:"project,omitempty"`
	// ExtendedFlags are flags of struct fsxattr, of extendedKept. ExtentSize and
	// CowExtentSize are its hints, in bytes.
	ExtendedFlags uint32 `json:"extendedFlags,omitempty"`
	ExtentSize    uint32 `json:"extentSize,omitempty"`
	CowExtentSize uint32 `json:"cowExtentSize,omitempty"`
	// Attributes are extended attributes, ACLs among them.
	Attributes []attribute `json:"attributes,omitempty"`
}

// attribute is an extended attribute. Neither name nor value need be text.
type attribute struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

const permissions = 0o7777

// Record returns the state of the root, for Restore: owner, mode, ACLs and other extended
// attributes, inode flags, project, and the rest of struct fsxattr.
func (r *Root) Record() (json.RawMessage, error) {
	var raw json.RawMessage
	err := r.do(func(root int) error {
		s, err := readState(root)
		if err != nil {
			return fmt.Errorf("record the state of %s: %w", r.path, err)
		}
		raw, err = json.Marshal(s)
		return err
	})
	return raw, err
}

// Restore restores the recorded state of the root, and syncs it. What an earlier version did
// not record is reset. If nothing was recorded (nil), what users can attach to a directory is
// removed: user.* attributes, flags, extent size hints. Owner, mode, ACLs and project, with
// its inheritance, then stay, since an administrator may have set them.
func (r *Root) Restore(raw json.RawMessage) error {
	restore := resetState
	if len(raw) > 0 {
		var want state
		if err := json.Unmarshal(raw, &want); err != nil {
			return fmt.Errorf("decode the recorded state of %s: %w", r.path, err)
		}
		restore = func(root int) error { return writeState(root, &want) }
	}
	return r.do(func(root int) error {
		if err := restore(root); err != nil {
			return fmt.Errorf("restore the state of %s: %w", r.path, err)
		}
		return flush(root, r.path)
	})
}

func readState(fd int) (*state, error) {
	st, err1 := statDescriptor(fd)
	flags, err2 := readFlags(fd)
	x, err3 := readExtended(fd)
	attributes, err4 := readAttributes(fd)
	return &state{
		UID: st.Uid, GID: st.Gid, Mode: uint32(st.Mode) & permissions, Flags: flags & flagsKept,
		Project: x.project, ExtendedFlags: x.flags & extendedKept, ExtentSize: x.extentSize, CowExtentSize: x.cowExtentSize,
		Attributes: attributes,
	}, cmp.Or(err1, err2, err3, err4)
}

// writeState changes what differs. Flags precede attributes, because setting flags makes btrfs
// drop an attribute's compression; owner precedes mode, because a new owner clears the set-ID
// bits; ACLs precede mode, because they set a mode; flags that may forbid all else are last.
func writeState(fd int, want *state) error {
	if err := restoreFlags(fd, want.Flags&^flagsLocked); err != nil {
		return err
	}
	st, err := statDescriptor(fd)
	if err != nil {
		return err
	}
	if st.Uid != want.UID || st.Gid != want.GID {
		if err := unix.Fchown(fd, int(want.UID), int(want.GID)); err != nil {
			return fmt.Errorf("set owner: %w", err)
		}
	}
	if err := writeAttributes(fd, want.Attributes); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, want.Mode&permissions); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	if err := restoreExtended(fd, want); err != nil || want.Flags&flagsLocked == 0 {
		return err
	}
	return restoreFlags(fd, want.Flags)
}

// resetState removes what users can attach to a directory whose recorded state is missing.
func resetState(fd int) error {
	flags, err := readFlags(fd)
	if err != nil {
		return err
	}
	if err := restoreFlags(fd, flags&flagProjectInherit); err != nil {
		return err
	}
	isUsers := func(name string) bool { return strings.HasPrefix(name, userAttribute) }
	if err := removeAttributes(fd, isUsers); err != nil {
		return err
	}
	x, err := readExtended(fd)
	if err != nil {
		return err
	}
	return restoreExtended(fd, &state{Project: x.project})
}

// restoreExtended changes what differs in struct fsxattr.
func restoreExtended(fd int, want *state) error {
	have, err := readExtended(fd)
	x := have
	x.flags = have.flags&^extendedKept | want.ExtendedFlags&extendedKept
	x.project, x.extentSize, x.cowExtentSize = want.Project, want.ExtentSize, want.CowExtentSize
	if err != nil || x == have {
		return err
	}
	return writeExtended(fd, x)
}

// restoreFlags changes flags of flagsKept that differ.
func restoreFlags(fd int, want uint32) error {
	have, err := readFlags(fd)
	flags := have&^flagsKept | want&flagsKept
	if err != nil || flags == have {
		return err
	}
	return writeFlags(fd, flags)
}

// resetDirectory makes a directory root's, with nothing attached, as mkfs makes lost+found.
func resetDirectory(fd int) error {
	x, err := readExtended(fd)
	if err != nil {
		return err
	}
	return writeState(fd, &state{Mode: 0o700, Project: x.project})
}
