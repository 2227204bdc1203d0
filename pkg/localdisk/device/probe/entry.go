// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/identity"
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
	return e.reject(reasonOf(err), "%s cannot be examined: %v", e.fact.HostPath, err)
}

// reasonOf returns why a disk cannot be examined.
func reasonOf(err error) disk.Reason {
	if ioError(err) {
		return disk.IOError
	}
	return disk.Unreadable
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
	if e.fact.Identity, err = e.identities.OfDevice(number); err != nil {
		return e.fail(err)
	}
	if e.fact.Attachment, err = e.identities.AttachmentOfDevice(number); err != nil {
		return e.fail(err)
	}
	return &e.fact
}

// mounted examines an entry on which something is mounted.
func (e *entry) mounted(m *mounts.Mount) *disk.Fact {
	e.fact.Kind, e.fact.FilesystemType = disk.Mount, m.FSType
	if !passable(m.FSType) {
		return e.unsupported(m.FSType)
	}
	st, err := statx(e.at, kindAndMount)
	if err != nil {
		return e.fail(err)
	}
	switch {
	case st.Mask&unix.STATX_MNT_ID != 0 && st.Mnt_id != uint64(m.ID):
		return e.reject(disk.Unreadable, "%s was mounted or unmounted while it was examined", e.fact.HostPath)
	case st.Mode&unix.S_IFMT == unix.S_IFBLK: // a device node, mounted on a file
		e.fact.FilesystemType = ""
		return e.device(e.at, st)
	case !mounts.Supported(m.FSType):
		return e.unsupported(m.FSType)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return e.special()
	case strings.HasSuffix(m.Root, "//deleted"):
		return e.reject(disk.Unreadable, "the folder that is mounted at %s has been deleted: unmount it", e.fact.HostPath)
	case !e.view.onHost(m):
		return e.reject(disk.MountMissing, "the host has unmounted %s", e.fact.HostPath)
	}
	return e.fileSystem(m, func() (disk.Identity, error) { return e.identities.OfMount(m, e.at) })
}

func (e *entry) unsupported(fsType string) *disk.Fact {
	return e.reject(disk.UnsupportedFilesystem, "%s is on a file system of type %s, which cannot be a local volume", e.fact.HostPath, fsType)
}

// fileSystem fills in what a mount and a directory have in common.
func (e *entry) fileSystem(m *mounts.Mount, identify func() (disk.Identity, error)) *disk.Fact {
	e.fact.FilesystemType = m.FSType
	place := m.Place(e.at)
	if e.discovers(place) {
		return &e.fact
	}
	e.fact.Place = place
	if e.folder.Mode == disk.Block {
		e.reject(disk.WrongVolumeMode, "%s is a file system, and volumes of class %s are block devices", e.fact.HostPath, e.fact.Class)
	}
	e.fileSystemHealth(m)
	if m.ReadOnly() {
		e.reject(disk.ReadOnly, "%s is mounted read-only", e.fact.HostPath)
	}
	var size unix.Statfs_t
	id, err := e.identityOf(e.at, identify, func() error {
		if err := uninterrupted(func() error { return e.statfs(e.at, &size) }); err != nil {
			return &os.PathError{Op: "statfs", Path: e.at, Err: err}
		}
		return nil
	})
	if err != nil {
		return e.fail(err)
	}
	e.fact.Identity = id
	if e.fact.Attachment, err = e.attachment(m); err != nil {
		return e.fail(err)
	}
	if e.fact.Bytes = total(&size); e.fact.Bytes == 0 {
		e.reject(disk.NoCapacity, "the file system at %s has no bytes", e.fact.HostPath)
	}
	return &e.fact
}

// total is the size of a file system in bytes; 0 if it is out of range.
func total(st *unix.Statfs_t) int64 {
	unit := st.Frsize
	if unit <= 0 {
		unit = st.Bsize
	}
	if unit <= 0 || st.Blocks > uint64(math.MaxInt64/unit) {
		return 0
	}
	return int64(st.Blocks) * unit
}

// attachment returns the attachment of the file system at an entry, which is on mount m. It is
// that of the host's mount, since the provisioner's own differs after each start of its
// container.
func (e *entry) attachment(m *mounts.Mount) (disk.Attachment, error) {
	for _, p := range e.hostPaths() {
		if on, ok := e.view.host.Over(p); ok && on.Major == m.Major && on.Minor == m.Minor {
			if id, ok := e.uniqueID(on); ok {
				return identity.AttachmentOfMount(id, true)
			}
			return identity.AttachmentOfMount(uint64(on.ID), false)
		}
	}
	return "", nil
}

// uniqueID is the ID of a mount of the host that no other mount has until the node restarts.
// Kernels before 6.8 have none.
func (e *entry) uniqueID(m *mounts.Mount) (uint64, bool) {
	for p := path.Dir(m.Point); p != "/"; p = path.Dir(p) {
		if on, ok := e.view.host.Over(p); ok && !passable(on.FSType) {
			return 0, false // the path may not answer
		}
	}
	root := path.Join(path.Dir(e.cfg.HostMountinfo), "root")
	st, err := statx(path.Join(root, m.Point), unix.STATX_MNT_ID_UNIQUE)
	if err != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return 0, false
	}
	return st.Mnt_id, true
}

// directory examines a plain directory. Most of them are mount points of disks that are not
// mounted yet: a volume published too early would be written to the disk below.
func (e *entry) directory(st *unix.Statx_t) *disk.Fact {
	e.fact.Kind = disk.Directory
	m := e.folder.mount
	host := e.fact.HostPath
	if e.discovers(m.Place(e.at)) {
		return &e.fact
	}
	if above := e.hostMount(); above != nil {
		if !mounts.Supported(above.FSType) {
			return e.unsupported(above.FSType)
		}
		return e.reject(disk.MountMissing, "%s is mounted on the host, and the provisioner's container does not see it: its mount of the discovery directory needs mountPropagation HostToContainer", host)
	}
	switch asked, err := matches(e.folder.Directories, e.fact.Name); {
	case err != nil:
		return e.fail(err)
	case e.wasMount:
		return e.reject(disk.MountMissing, "a file system was published at %s, and is not mounted now", host)
	case slices.ContainsFunc(e.hostPaths(), func(p string) bool { return slices.Contains(e.view.fstab, p) }):
		return e.reject(disk.MountMissing, "fstab has a file system for %s, and it is not mounted", host)
	case e.folder.Mode == disk.Block:
		return e.reject(disk.WrongVolumeMode, "%s is a directory, and volumes of class %s are block devices", host, e.fact.Class)
	case !asked:
		return e.reject(disk.NotMountPoint, "%s is a directory on which nothing is mounted: mount a disk on it, or have directoryPattern of class %s match it", host, e.fact.Class)
	case st.Mnt_id != e.folder.mountID:
		return e.reject(disk.Unreadable, "%s was mounted while it was examined", host)
	case !mounts.Supported(m.FSType):
		return e.unsupported(m.FSType)
	}
	return e.fileSystem(m, func() (disk.Identity, error) { return e.identities.OfDirectory(e.at) })
}

// hostMount returns what the host has mounted at an entry where the provisioner sees no mount.
func (e *entry) hostMount() *mounts.Mount {
	if e.view.host == e.view.self {
		return nil
	}
	for _, p := range e.hostPaths() {
		if m, ok := e.view.host.At(p); ok {
			return m
		}
	}
	return nil
}

// hostPaths are the entry's paths on the host, HostPath and what its symlinks lead to.
func (e *entry) hostPaths() []string {
	paths := e.view.onTheHost([]*listing{e.folder})
	for i, folder := range paths {
		paths[i] = path.Join(folder, e.fact.Name)
	}
	return paths
}

// fileSystemHealth rejects a mounted file system that mountinfo or sysfs show to be failing.
// Whether it answers is observed when it is accessed.
func (e *entry) fileSystemHealth(m *mounts.Mount) {
	e.fault(m)
	if m.Major == 0 {
		return // on no device, or on several
	}
	number := fmt.Sprintf("%d:%d", m.Major, m.Minor)
	switch ro, err := sysfs.Device(filepath.Join(e.cfg.Sys, "dev/block", number)).Int("ro"); {
	case err != nil && gone(err):
		e.reject(disk.IOError, "the device %s of the file system at %s is gone", number, e.fact.HostPath)
	case err != nil:
		e.fail(err)
	case ro != 0:
		e.reject(disk.DeviceReadOnly, "the device %s of the file system at %s rejects writes: unless it was set read-only, it is failing", number, e.fact.HostPath)
	}
}

// deviceHealth rejects a device whose mounted file system is failing, such as one that kubelet
// has mounted for a pod. The device itself is not read.
func (e *entry) deviceHealth(major, minor uint32) {
	if all := e.view.host.OfDevice(major, minor); len(all) > 0 {
		e.fault(all[0])
	}
	for _, m := range e.view.self.OfDevice(major, minor) {
		if top, ok := e.view.self.At(m.Point); !ok || top != m || !mounts.Supported(m.FSType) {
			continue
		}
		// XFS that was shut down answers with EIO here, and shows nothing in mountinfo.
		if _, err := statx(m.Point, kindAndMount); err != nil && ioError(err) {
			e.reject(disk.IOError, "the file system on %s cannot be examined: %v", e.fact.HostPath, err)
		}
		return
	}
}

// fault rejects a file system to which the kernel has stopped writing.
func (e *entry) fault(m *mounts.Mount) {
	if fault := e.view.host.Fault(m); fault != "" {
		e.reject(disk.FilesystemError, "the %s file system on %s %s: check the disk and the kernel's log, unmount, check and mount it again", m.FSType, e.fact.HostPath, fault)
	}
}

func ioError(err error) bool {
	return slices.ContainsFunc(ioErrors, func(target error) bool { return errors.Is(err, target) })
}

// ioErrors are what the kernel returns for a disk, or a file system on it, that fails.
// Others, such as EACCES, may be due to how this process runs.
var ioErrors = []error{
	unix.EIO, unix.EREMOTEIO, unix.ENXIO, unix.ENODEV, unix.ENOMEDIUM, unix.ENODATA, unix.EILSEQ, unix.ETIMEDOUT, unix.ENOLINK,
	unix.EUCLEAN, unix.EBADMSG, // corrupt metadata, of ext4 and XFS
	unix.ESHUTDOWN, unix.ENOTCONN, // a file system whose server has died
}
