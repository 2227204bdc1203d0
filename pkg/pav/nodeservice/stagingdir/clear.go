// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package stagingdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/device/mounts"
)

// Left means that attempts have left something on the node that may still write to the volume.
type Left struct{ What []string }

func (e *Left) Error() string { return "still on the node: " + strings.Join(e.What, "; ") }

// Clear unmounts what staging pods, which have ended, have left mounted in the directories of the
// attempts up to a number. It fails with *Left if something remains: a mount that is busy, a loop
// device with a file of the attempts, or a use of the block device that was staged, which may be nil.
func (d *Dirs) Clear(volume, uid string, upTo int64, staged *stowage.StagedVolume) error {
	path, err := d.path(volume, uid)
	if err != nil {
		return err
	}
	left := &Left{}
	if err := d.unmount(path, upTo, left); err != nil {
		return err
	}
	if err := d.findLoops(path, upTo, left); err != nil {
		return err
	}
	if staged != nil && staged.Device != "" && staged.Attempt <= upTo {
		if err := d.findUses(staged, left); err != nil {
			return err
		}
	}
	if len(left.What) > 0 {
		return left
	}
	return nil
}

// ofAttempts reports whether a path is of an attempt of a staging up to a number.
func ofAttempts(directory string, upTo int64, path string) bool {
	rest, ok := strings.CutPrefix(path, directory+"/")
	if !ok {
		return false
	}
	first, _, _ := strings.Cut(rest, "/")
	attempt, err := strconv.ParseInt(first, 10, 64)
	return err != nil || attempt <= upTo
}

func (d *Dirs) table() (*mounts.Table, error) {
	return mounts.Read(filepath.Join(d.Proc, "self/mountinfo"))
}

// unmount unmounts the last mounts first. A mount is never detached: what uses it could continue.
func (d *Dirs) unmount(directory string, upTo int64, left *Left) error {
	table, err := d.table()
	if err != nil {
		return err
	}
	all := table.Below(directory)
	slices.Reverse(all)
	for _, mount := range all {
		if !ofAttempts(directory, upTo, mount.Point) {
			continue
		}
		if err := unix.Unmount(mount.Point, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			left.What = append(left.What, fmt.Sprintf("mount %s (%s): %v", mount.Point, mount.FSType, err))
		}
	}
	return nil
}

// findLoops finds loop devices with a file in the directories.
func (d *Dirs) findLoops(directory string, upTo int64, left *Left) error {
	files, err := filepath.Glob(filepath.Join(d.Sys, "block/loop*/loop/backing_file"))
	if err != nil {
		return fmt.Errorf("list loop devices: %w", err)
	}
	for _, file := range files {
		if backing := d.text(file); ofAttempts(directory, upTo, backing) {
			name := filepath.Base(filepath.Dir(filepath.Dir(file)))
			left.What = append(left.What, fmt.Sprintf("loop device /dev/%s has %s", name, backing))
		}
	}
	return nil
}

// findUses finds uses of the block device that was staged, unless the number is another device's now.
func (d *Dirs) findUses(staged *stowage.StagedVolume, left *Left) error {
	device := filepath.Join(d.Sys, "dev/block", staged.Device)
	if d.sequence(staged.Device) != staged.DiskSequence {
		return nil
	}
	holders, err := os.ReadDir(filepath.Join(device, "holders"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list the holders of block device %s: %w", staged.Device, err)
	}
	for _, holder := range holders {
		left.What = append(left.What, fmt.Sprintf("device /dev/%s has block device %s", holder.Name(), staged.Device))
	}
	if backing := d.text(filepath.Join(device, "loop/backing_file")); backing != "" {
		left.What = append(left.What, fmt.Sprintf("loop device %s has %s", staged.Device, backing))
	}
	table, err := d.table()
	if err != nil {
		return err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(staged.Device, "%d:%d", &major, &minor); err != nil {
		return fmt.Errorf("number of a block device %q: %w", staged.Device, err)
	}
	for _, mount := range table.OfDevice(major, minor) {
		left.What = append(left.What, fmt.Sprintf("block device %s is mounted at %s", staged.Device, mount.Point))
	}
	return nil
}

// text returns the content of a file in sysfs, without newline; empty if it cannot be read.
func (d *Dirs) text(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(content), "\n")
}
