// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"
)

// state is what the root of a volume looks like, apart from what lies in it.
type state struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Mode are the permission bits, with set-ID and sticky.
	Mode uint32 `json:"mode"`
	// Flags are inode flags, of flagsKept.
	Flags uint32 `json:"flags,omitempty"`
	// Project is what project quotas count the root to.
	Project uint32 `json:"project,omitempty"`
	// Attributes are extended attributes, ACLs among them.
	Attributes []attribute `json:"attributes,omitempty"`
}

// attribute is an extended attribute. Neither name nor value need be text.
type attribute struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

const permissions = 0o7777

// Record returns what the root looks like: owner, mode, ACLs and other extended
// attributes, inode flags, project. It is for Restore.
func (r *Root) Record() (json.RawMessage, error) {
	var raw json.RawMessage
	err := r.do(func(root int) error {
		s, err := readState(root)
		if err != nil {
			return fmt.Errorf("record what %s looks like: %w", r.path, err)
		}
		raw, err = json.Marshal(s)
		return err
	})
	return raw, err
}

// Restore makes the root look as it was recorded, and writes it to the disk. Nothing
// recorded (nil) is nothing done.
func (r *Root) Restore(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var want state
	if err := json.Unmarshal(raw, &want); err != nil {
		return fmt.Errorf("decode what %s looked like: %w", r.path, err)
	}
	return r.do(func(root int) error {
		if err := writeState(root, &want); err != nil {
			return fmt.Errorf("restore what %s looked like: %w", r.path, err)
		}
		return flush(root, r.path)
	})
}

func readState(fd int) (*state, error) {
	st, err := statDescriptor(fd)
	if err != nil {
		return nil, err
	}
	s := &state{UID: st.Uid, GID: st.Gid, Mode: uint32(st.Mode) & permissions}
	flags, err := readFlags(fd)
	if err != nil {
		return nil, fmt.Errorf("read flags: %w", err)
	}
	s.Flags = flags & flagsKept
	if s.Project, err = readProject(fd); err != nil {
		return nil, fmt.Errorf("read project: %w", err)
	}
	if s.Attributes, err = readAttributes(fd); err != nil {
		return nil, err
	}
	return s, nil
}

// writeState changes what differs. Owner before mode, because a new owner costs
// the set-ID bits; ACLs before mode, because they bring a mode along; flags last,
// because they may forbid all else.
func writeState(fd int, want *state) error {
	if err := unlock(fd); err != nil {
		return fmt.Errorf("clear flags: %w", err)
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
	if err := restoreProject(fd, want.Project); err != nil {
		return err
	}
	return restoreFlags(fd, want.Flags)
}

func restoreProject(fd int, want uint32) error {
	have, err := readProject(fd)
	if err != nil {
		return fmt.Errorf("read project: %w", err)
	}
	if have == want {
		return nil
	}
	if err := writeProject(fd, want); err != nil {
		return fmt.Errorf("set project: %w", err)
	}
	return nil
}

func restoreFlags(fd int, want uint32) error {
	have, err := readFlags(fd)
	if err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	flags := have&^flagsKept | want&flagsKept
	if flags == have {
		return nil
	}
	if err := writeFlags(fd, flags); err != nil {
		return fmt.Errorf("set flags: %w", err)
	}
	return nil
}

// resetDirectory makes a directory root's own, with nothing attached, as lost+found
// is made.
func resetDirectory(fd int) error {
	project, err := readProject(fd)
	if err != nil {
		return err
	}
	return writeState(fd, &state{Mode: 0o700, Project: project})
}
