// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Users returns everything on the node that uses the bytes of a fact, each user once, sorted.
// volume is the name of their volume, empty if there was none. After an error, including the
// end of ctx, which is checked between the steps, the disk must be treated as in use.
//
// A device without known users is opened exclusively for a moment. Loop devices are opened
// too, to read what they are attached to. That waits for the file system of a loop device's
// file. The root of a file system without a device number (btrfs) is opened for that of its
// files.
func (f *Finder) Users(ctx context.Context, fact disk.Fact, volume string) ([]disk.User, error) {
	found, err := f.users(ctx, fact, volume)
	if err != nil {
		return nil, fmt.Errorf("find the users of %s: %w", fact.HostPath, err)
	}
	return found, nil
}

func (f *Finder) users(ctx context.Context, fact disk.Fact, volume string) ([]disk.User, error) {
	if strings.ContainsRune(volume, '/') {
		return nil, fmt.Errorf("%q is not a volume name", volume)
	}
	s, err := f.Survey(nil, nil)
	if err != nil {
		return nil, err
	}
	t, err := s.target(fact.Place)
	if err != nil {
		return nil, err
	}
	if t.files, err = filesOf(t, fact.Path); err != nil {
		return nil, err
	}
	own, err := f.ownPaths(s, fact)
	if err != nil {
		return nil, err
	}
	var uses []use
	if t.device != nil {
		uses = withoutEntry(own, s.usesOfOverlap(t.device))
	} else {
		uses = slices.Concat(s.systemOn(t), s.otherMounts(t, own), s.filesWithin(t))
		for _, d := range s.devicesOf(t) {
			uses = append(uses, s.otherUses(d)...)
		}
	}
	for _, look := range []func() ([]use, error){
		func() ([]use, error) { return f.kubelet(volume) },
		func() ([]use, error) { return f.loops(ctx, s, t) },
	} {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		more, err := look()
		if err != nil {
			return nil, err
		}
		uses = append(uses, more...)
	}
	if len(uses) == 0 && t.device != nil {
		if uses, err = openExclusively(fact.Device, t.device); err != nil {
			return nil, err
		}
	}
	return users(uses), nil
}

// filesOf returns target.files, for file systems without a device number.
func filesOf(t target, p string) (number, error) {
	if t.device != nil || t.fs.major != 0 {
		return t.files, nil
	}
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		return number{}, fmt.Errorf("examine %q: %w", p, err)
	}
	return numberOfStat(st.Dev), nil
}

// ownPaths returns the paths on the host at which the fact's own mount may be: that of the
// fact, and, as that may have symlinks, wherever the host has mounted something on the folder
// of the fact's mount in this process's namespace.
func (f *Finder) ownPaths(s *Survey, fact disk.Fact) ([]string, error) {
	own := []string{filepath.Clean(fact.HostPath)}
	self, err := mounts.Read(mounts.Self)
	if err != nil {
		return nil, err
	}
	m, ok := self.At(fact.Path)
	if !ok {
		return own, nil
	}
	location, ok := self.MountedOn(m)
	if !ok {
		return own, nil
	}
	for _, o := range s.table.SameBytes(m) {
		if at, ok := s.table.MountedOn(o); ok && at == location {
			own = append(own, o.Point)
		}
	}
	return own, nil
}

// openExclusively opens a device with O_EXCL, and closes it. The kernel refuses that if
// the device, a partition of it or the disk that it is a partition of is held exclusively by
// any process or the kernel.
func openExclusively(path string, d *device) ([]use, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return []use{{User: disk.User{What: disk.ExclusiveOpen, Where: path}}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("examine %s: %w", path, err)
	}
	if got := numberOfStat(st.Rdev); st.Mode&unix.S_IFMT != unix.S_IFBLK || got != d.number {
		return nil, fmt.Errorf("%s is no longer block device %s", path, d.number)
	}
	return nil, nil
}

// loops reads what the loop devices are attached to from the devices themselves, since the
// path in sysfs is that of the process that attached them.
func (f *Finder) loops(ctx context.Context, s *Survey, t target) ([]use, error) {
	var uses []use
	for _, lo := range s.loops {
		if lo.at.mayHang {
			continue // by its path, on a file system that might not answer
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		device, fs, err := f.attached(lo.device)
		if err != nil {
			return nil, err
		}
		if s.reaches(t, lo, device, fs) {
			uses = append(uses, use{User: disk.User{What: byLoop, Where: lo.device.path()}})
		}
	}
	return uses, nil
}

// reaches reports whether a loop device that is attached to a device, or to a file of a file
// system, is attached to the target. A detached one, with neither, is not.
func (s *Survey) reaches(t target, lo loop, attached, fs number) bool {
	if attached == (number{}) && fs == (number{}) {
		return false
	}
	if attached != (number{}) {
		for _, d := range s.devicesOf(t) {
			for _, o := range d.overlap() {
				if o.number == attached && !slices.Contains(append(d.below(), d), lo.device) {
					return true
				}
			}
		}
		return false
	}
	if t.device != nil || (fs != t.fs && fs != t.files) {
		return false
	}
	// A file of the target's file system. If its path leads to that file system on the host, it
	// determines whether the file is in the target; else it may be.
	return !lo.at.known || lo.at.fs != t.fs || mounts.Within(t.root, lo.at.file)
}

// attached returns what a loop device is attached to: a device, or a file of a file system.
// Both are zero if it is detached.
func (f *Finder) attached(d *device) (device, fs number, err error) {
	node := filepath.Join(f.config.Dev, strings.TrimPrefix(d.path(), "/dev/"))
	fd, err := unix.Open(node, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENXIO) {
		return number{}, number{}, nil
	}
	if err != nil {
		return number{}, number{}, fmt.Errorf("open %s: %w", node, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return number{}, number{}, fmt.Errorf("examine %s: %w", node, err)
	}
	if numberOfStat(st.Rdev) != d.number {
		return number{}, number{}, fmt.Errorf("%s is not block device %s", node, d.number)
	}
	info, err := unix.IoctlLoopGetStatus64(fd)
	if errors.Is(err, unix.ENXIO) {
		return number{}, number{}, nil
	}
	if err != nil {
		return number{}, number{}, fmt.Errorf("read what %s is attached to: %w", node, err)
	}
	return numberOfStat(info.Rdevice), numberOfStat(info.Device), nil
}

func numberOfStat(dev uint64) number { return number{unix.Major(dev), unix.Minor(dev)} }
