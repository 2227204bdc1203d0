// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
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
// A device without known users is opened exclusively for a moment. Loop devices are opened too,
// to read what they are attached to. That waits for the file system of a loop device's file. The
// root of a file system without a device number (btrfs) is opened for that of its files.
func (f *Finder) Users(ctx context.Context, fact disk.Fact, volume string) (_ []disk.User, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("find the users of %s: %w", fact.HostPath, err)
		}
	}()
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
	if t.device == nil && t.fs.major == 0 {
		var st unix.Stat_t
		if err := unix.Stat(fact.Path, &st); err != nil {
			return nil, fmt.Errorf("examine %q: %w", fact.Path, err)
		}
		t.files = numberOfStat(st.Dev)
	}
	own, err := s.ownPaths(fact)
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
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	kubelet, err1 := f.kubelet(volume)
	loops, err2 := f.loops(ctx, s, t)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	uses = slices.Concat(uses, kubelet, loops)
	if len(uses) == 0 && t.device != nil {
		fd, err := openNode(fact.Device, unix.O_EXCL, t.device)
		switch {
		case errors.Is(err, unix.EBUSY):
			return []disk.User{{What: disk.ExclusiveOpen, Where: fact.Device}}, nil
		case err != nil:
			return nil, err
		}
		_ = unix.Close(fd)
	}
	return users(uses), nil
}

// ownPaths returns the paths on the host at which the fact's own mount may be: that of the
// fact, and, as that may have symlinks, wherever the host has mounted something on the folder
// of the fact's mount in this process's namespace.
func (s *Survey) ownPaths(fact disk.Fact) ([]string, error) {
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
	for _, o := range s.table.SameBytes(m) {
		if at, there := s.table.MountedOn(o); ok && there && at == location {
			own = append(own, o.Point)
		}
	}
	return own, nil
}

// openNode opens a device at a path, which must be its node. With O_EXCL the kernel refuses
// that (EBUSY) if the device, a partition of it or the disk that it is a partition of is held
// exclusively by any process or the kernel.
func openNode(path string, flags int, d *device) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return -1, fmt.Errorf("open %q: %w", path, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		err = fmt.Errorf("examine %s: %w", path, err)
	} else if st.Mode&unix.S_IFMT != unix.S_IFBLK || numberOfStat(st.Rdev) != d.number {
		err = fmt.Errorf("%s is not block device %s", path, d.number)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// loops reads what the loop devices are attached to from the devices themselves, since the
// path in sysfs is that of the process that attached them.
func (f *Finder) loops(ctx context.Context, s *Survey, t target) ([]use, error) {
	var uses []use
	for _, lo := range s.pathUses {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if lo.loop == nil || lo.at.mayHang {
			continue // by its path, on a file system that might not answer
		}
		device, fs, err := f.attached(lo.loop)
		if err != nil {
			return nil, err
		}
		if s.reaches(t, lo, device, fs) {
			uses = append(uses, lo)
		}
	}
	return uses, context.Cause(ctx)
}

// reaches reports whether a loop device that is attached to a device, or to a file of a file
// system, is attached to the target. A detached one, with neither, is not.
func (s *Survey) reaches(t target, lo use, attached, fs number) bool {
	if attached != (number{}) {
		for _, d := range s.devicesOf(t) {
			for _, o := range d.overlap() {
				if o.number == attached && !slices.Contains(append(d.below(), d), lo.loop) {
					return true
				}
			}
		}
		return false
	}
	if t.device != nil || fs == (number{}) || fs != t.fs && fs != t.files {
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
	fd, err := openNode(node, 0, d)
	if errors.Is(err, unix.ENXIO) {
		return number{}, number{}, nil
	}
	if err != nil {
		return number{}, number{}, err
	}
	defer unix.Close(fd)
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

// kubeletLocal is the name of kubelet's folders for local volumes.
const kubeletLocal = "kubernetes.io~local-volume"

// kubeletPlaces are the folders in which kubelet has one entry per local volume, by
// their last elements: a pod's volumes and raw devices, the latter's nodes, the file
// systems that kubelet has mounted of devices, and a pod's folders within volumes.
var kubeletPlaces = []string{
	kubeletLocal,
	kubeletLocal + "/volumeDevices",
	"kubernetes.io/local-volume/mounts",
	"volume-subpaths",
}

// kubelet returns the entries of a volume in kubelet's folder. Only names are read: mounts are
// not accessed.
func (f *Finder) kubelet(volume string) ([]use, error) {
	if volume == "" {
		return nil, nil
	}
	pods, err := list(filepath.Join(f.config.KubeletPath, "pods"))
	if err != nil {
		return nil, fmt.Errorf("list pods in kubelet's folder: %w", err)
	}
	if pods == nil {
		return nil, fmt.Errorf("kubelet's folder: %s has no folder pods", f.config.KubeletPath)
	}
	folders := []string{
		filepath.Join("plugins", kubeletLocal, "volumeDevices"),
		"plugins/kubernetes.io/local-volume/mounts",
	}
	for _, pod := range pods {
		folders = append(folders,
			filepath.Join("pods", pod, "volumes", kubeletLocal),
			filepath.Join("pods", pod, "volumeDevices", kubeletLocal))
	}
	var uses []use
	for _, folder := range folders {
		names, err := list(filepath.Join(f.config.KubeletPath, folder))
		if err != nil {
			return nil, fmt.Errorf("find the volume in kubelet's folder: %w", err)
		}
		if slices.Contains(names, volume) {
			where := filepath.Join(f.config.KubeletDir, folder, volume)
			uses = append(uses, use{User: disk.User{What: byKubelet, Where: where}, path: where})
		}
	}
	return uses, nil
}
