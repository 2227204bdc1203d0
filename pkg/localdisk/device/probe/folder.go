// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// listing is a discovery directory that has been read.
type listing struct {
	disk.Folder
	// at is Path without symlinks.
	at string
	// mount is the directory's mount, mountID the kernel's ID of it.
	mount   *mounts.Mount
	mountID uint64
	// names are the entries that match the class's patterns.
	names []string
}

// place is where on its file system the directory is.
func (l *listing) place() string { return l.mount.Place(l.at) }

func (v *view) list(f disk.Folder) (*listing, *disk.Problem) {
	if !path.IsAbs(f.Path) || !path.IsAbs(f.HostPath) {
		return nil, disk.Problemf(disk.Unreadable, "the discovery directory %s is not an absolute path", f.HostPath)
	}
	at, st, err := v.walk("/", f.Path)
	if err != nil {
		return nil, troubleOf(f, err)
	}
	m, ok := v.self.Over(at)
	if !ok {
		return nil, disk.Problemf(disk.Unreadable, "the discovery directory %s is on no known mount", f.HostPath)
	}
	names, err := entries(at)
	if err != nil {
		return nil, troubleOf(f, err)
	}
	l := &listing{Folder: f, at: at, mount: m, mountID: st.Mnt_id}
	for _, name := range names {
		wanted, err := matches(f.Names, name)
		if err != nil {
			return nil, troubleOf(f, err)
		}
		if wanted || len(f.Names) == 0 {
			l.names = append(l.names, name)
		}
	}
	return l, nil
}

func troubleOf(f disk.Folder, err error) *disk.Problem {
	if gone(err) {
		return disk.Problemf(disk.Unreadable, "the discovery directory %s does not exist, or cannot be seen from the provisioner's container: create it", f.HostPath)
	}
	return disk.Problemf(disk.Unreadable, "the discovery directory %s cannot be read: %v", f.HostPath, err)
}

// entries returns the names in a directory. It does not update the directory's access time if
// that is permitted.
func entries(at string) ([]string, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOFOLLOW
	fd, err := unix.Open(at, flags|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) { // the directory is another user's
		fd, err = unix.Open(at, flags, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: at, Err: err}
	}
	folder := os.NewFile(uintptr(fd), at)
	defer folder.Close()
	return folder.Readdirnames(-1)
}

// matches reports whether one of the patterns matches.
func matches(patterns []string, name string) (bool, error) {
	for _, pattern := range patterns {
		ok, err := path.Match(pattern, name)
		if err != nil {
			return false, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}
