// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"fmt"
	"os"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// checkMounts searches for mounts below the root in the process's own mount table, and calls
// BeforeClean for others.
func (r *Root) checkMounts(root int) error {
	if err := r.checkOwnMounts(root); err != nil {
		return err
	}
	if r.BeforeClean == nil {
		return nil
	}
	return r.BeforeClean()
}

func (r *Root) checkOwnMounts(root int) error {
	// The path with symlinks resolved, as the mount table has it.
	resolved, err := os.Readlink(descriptorPath(root))
	if err != nil {
		return fmt.Errorf("resolve %s: %w", r.path, err)
	}
	below, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		// A mount that another one hides has another parent.
		return uint64(m.Parent) != r.node.mount || !strings.HasPrefix(m.Mountpoint, resolved+"/"), false
	})
	if err != nil {
		return fmt.Errorf("read mount table: %w", err)
	}
	if len(below) > 0 {
		return &NestedMountError{Path: below[0].Mountpoint}
	}
	return nil
}

// descriptorPath leads to what a descriptor is open on, and to nothing else.
func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
