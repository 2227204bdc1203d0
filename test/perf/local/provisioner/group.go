// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// group is a cgroup that counts memory. A nil one is none: it counts nothing.
type group struct {
	folder string
	file   string // that has the peak
}

// newGroup makes a cgroup below the root of the hierarchy that counts memory, of version
// 2 or 1. It is nil where none is usable.
func newGroup(name string) (*group, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup2", "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("find the cgroups: %w", err)
	}
	for _, mount := range mounts {
		file := "memory.peak"
		switch {
		case mount.FSType == "cgroup2" && countsMemory(mount.Mountpoint):
			// Groups below the root count only with the controllers that the root delegates.
			_ = os.WriteFile(filepath.Join(mount.Mountpoint, "cgroup.subtree_control"), []byte("+memory"), 0o600)
		case mount.FSType == "cgroup" && slices.Contains(strings.Split(mount.VFSOptions, ","), "memory"):
			file = "memory.max_usage_in_bytes"
		default:
			continue
		}
		g := &group{folder: filepath.Join(mount.Mountpoint, name), file: file}
		if err := os.Mkdir(g.folder, 0o755); err != nil {
			if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
				continue
			}
			return nil, fmt.Errorf("make a cgroup: %w", err)
		}
		return g, nil
	}
	return nil, nil
}

func countsMemory(hierarchy string) bool {
	text, err := os.ReadFile(filepath.Join(hierarchy, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(text)), "memory")
}

// wrap is a command that runs another one in the group from its first page on.
func (g *group) wrap(binary string, args []string) (string, []string) {
	if g == nil {
		return binary, args
	}
	return "/bin/sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, g.folder, binary}, args...)
}

// peak is the most memory that the group was charged for, in bytes; 0 without a counter.
func (g *group) peak() (int64, error) {
	if g == nil {
		return 0, nil
	}
	text, err := os.ReadFile(filepath.Join(g.folder, g.file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// remove removes the group, whose processes have ended or are about to.
func (g *group) remove() error {
	const tries = 50
	var err error
	for range tries {
		if err = os.Remove(g.folder); !errors.Is(err, unix.EBUSY) {
			return err
		}
		if err := pass(context.Background(), 100*time.Millisecond); err != nil { // it has no event for being idle
			return err
		}
	}
	return err
}
