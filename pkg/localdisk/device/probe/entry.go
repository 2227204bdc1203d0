// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// lostAndFound is what mkfs.ext4 makes in the root of a file system. It is never a candidate.
const lostAndFound = "lost+found"

// entry is one examination of one slot.
type entry struct {
	*Prober
	view   *view
	folder *listing
	// folders are all discovery directories.
	folders []*listing
	// wasMount reports whether a record or a volume has a mounted file system here.
	wasMount bool
	// fresh forbids the use of a cached identity.
	fresh bool

	// at is the entry's path without symlinks in its folder.
	at   string
	fact disk.Fact
}

// reject sets why this is no volume. The first reason is kept.
func (e *entry) reject(reason disk.Reason, format string, args ...any) *disk.Fact {
	if e.fact.Problem == nil {
		e.fact.Problem = disk.Problemf(reason, format, args...)
	}
	return &e.fact
}

// fail sets the problem for an error. It returns nil if the error means that nothing is there.
func (e *entry) fail(err error) *disk.Fact {
	if gone(err) {
		return nil
	}
	reason := disk.Unreadable
	if ioError(err) {
		reason = disk.IOError
	}
	return e.reject(reason, "%s cannot be examined: %v", e.fact.HostPath, err)
}

// examine returns what is at the path; nil if nothing is there. The mount table is checked before
// any access.
func (e *entry) examine() *disk.Fact {
	name := e.fact.Name
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return e.reject(disk.OutsideDirectory, "%q is not a name of an entry of %s", name, e.folder.HostPath)
	}
	if m, ok := e.view.self.At(e.at); ok {
		return e.mounted(m)
	}
	st, err := statx(e.at, kindAndMount)
	if err != nil {
		return e.fail(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return e.link()
	case unix.S_IFBLK:
		return e.device(e.at, st)
	case unix.S_IFDIR:
		if name == lostAndFound {
			return nil
		}
		return e.directory(st)
	default:
		return e.special()
	}
}

func (e *entry) special() *disk.Fact {
	return e.reject(disk.SpecialFile, "%s is neither a mount point nor a block device nor a link to one: move it out of the discovery directory", e.fact.HostPath)
}

// link follows a symlink, which may lead to a block device below /dev and nowhere else.
func (e *entry) link() *disk.Fact {
	target, err := os.Readlink(e.at)
	if err != nil {
		return e.fail(err)
	}
	at, st, err := e.view.walk(e.folder.at, target)
	var barrier *barrierError
	switch {
	case errors.As(err, &barrier):
		return e.reject(disk.OutsideDirectory, "%s is a link to %s: %v", e.fact.HostPath, target, err)
	case err != nil:
		return e.fail(err)
	case !mounts.Within(path.Clean(e.cfg.Dev), at):
		return e.reject(disk.OutsideDirectory, "%s is a link to %s: only links to block devices below /dev are followed; mount file systems in the directory itself", e.fact.HostPath, target)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return e.reject(disk.OutsideDirectory, "%s is a link to the directory %s", e.fact.HostPath, target)
	case st.Mode&unix.S_IFMT != unix.S_IFBLK:
		return e.special()
	}
	return e.device(at, st)
}

// discovers rejects the discovery directories, and what has one in it: cleaning it would clean
// every volume of a class.
func (e *entry) discovers(place string) bool {
	for _, l := range e.folders {
		if mounts.Within(e.at, l.at) || covers(place, l.place()) {
			e.reject(disk.DiscoveryDirectory, "%s is, or holds, the discovery directory %s of class %s", e.fact.HostPath, l.HostPath, l.Class)
			return true
		}
	}
	return false
}

// device examines a block device, whose node is at a path, by sysfs alone.
func (e *entry) device(at string, st *unix.Statx_t) *disk.Fact {
	number := fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor)
	e.fact.Kind, e.fact.Device = disk.Device, at
	device, err := sysfs.Block(e.cfg.Sys, number)
	if err != nil {
		return e.fail(err) // nothing is found if the device of the node does not exist
	}
	e.fact.Place = "dev:" + number
	if e.fact.Bytes, err = device.Bytes("size"); err != nil {
		return e.fail(err)
	}
	if e.fact.Bytes == 0 {
		return e.reject(disk.NoCapacity, "the device %s has no bytes: no medium, or nothing attached", at)
	}
	if ro, err := device.Int("ro"); err != nil {
		return e.fail(err)
	} else if ro != 0 {
		e.reject(disk.DeviceReadOnly, "the device %s rejects writes: unless it was set read-only, it is failing", at)
	}
	e.deviceHealth(st.Rdev_major, st.Rdev_minor)
	if e.fact.Identity, err = e.identifier().OfDevice(number); err != nil {
		return e.fail(err)
	}
	if e.fact.Attachment, err = e.identifier().AttachmentOfDevice(number); err != nil {
		return e.fail(err)
	}
	return &e.fact
}
