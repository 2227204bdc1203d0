// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

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
	case slices.ContainsFunc(e.hostPaths(), func(p string) bool { return e.view.fstab[p] }):
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
	return e.fileSystem(m, func() (disk.Identity, error) { return e.identifier().OfDirectory(e.at) })
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
