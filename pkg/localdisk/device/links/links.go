// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package links makes and removes the symlinks through which kubelet finds the devices
// of local volumes. They are in a folder of devtmpfs, which is empty after each boot.
package links

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Folder is where links are, as FOLDER/CLASS/ID. It and the folders of classes are created as
// needed, belong to root and are writable by root only: any other folder is an error, and so
// is a symlink below Base. Safe for concurrent use for different links.
type Folder struct {
	// Base exists and is trusted ("/dev"). Path is below it ("/dev/stowage/disks").
	Base, Path string
}

// LinkTarget returns the path that a link points to; empty if there is no link.
func (f Folder) LinkTarget(link string) (string, error) {
	folder, name, err := f.open(link, false)
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer unix.Close(folder)
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(folder, name, buffer)
	switch {
	case errors.Is(err, unix.ENOENT):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read link %s: %w", link, err)
	}
	return string(buffer[:n]), nil
}

// PutLink points a link to a path. An existing link is replaced atomically.
func (f Folder) PutLink(link, target string) error {
	folder, name, err := f.open(link, true)
	if err != nil {
		return err
	}
	defer unix.Close(folder)
	draft := ".new-" + rand.Text()
	if err := unix.Symlinkat(target, folder, draft); err != nil {
		return fmt.Errorf("make link %s: %w", link, err)
	}
	if err := unix.Renameat(folder, draft, folder, name); err != nil {
		return errors.Join(fmt.Errorf("make link %s: %w", link, err), unix.Unlinkat(folder, draft, 0))
	}
	return nil
}

// RemoveLink removes a link, and the folder of its class when that is empty. A missing link is no
// error.
func (f Folder) RemoveLink(link string) error {
	folder, name, err := f.open(link, false)
	if errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return err
	}
	defer unix.Close(folder)
	if err := unix.Unlinkat(folder, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove link %s: %w", link, err)
	}
	_ = unix.Rmdir(path.Dir(link)) // usually not empty
	return nil
}

// Replace makes links, targets by name, the only entries of the folder of a class.
func (f Folder) Replace(class string, links map[string]string) error {
	folder, err := f.enter(class, true)
	if err != nil {
		return err
	}
	defer unix.Close(folder)
	entries, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", folder))
	if err != nil {
		return fmt.Errorf("read %s: %w", path.Join(f.Path, class), err)
	}
	for _, entry := range entries {
		if _, wanted := links[entry.Name()]; wanted {
			continue
		}
		if err := unix.Unlinkat(folder, entry.Name(), 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove %s: %w", path.Join(f.Path, class, entry.Name()), err)
		}
	}
	for name, target := range links {
		link := path.Join(f.Path, class, name)
		if found, err := f.LinkTarget(link); err != nil || found == target {
			if err != nil {
				return err
			}
			continue
		}
		if err := f.PutLink(link, target); err != nil {
			return err
		}
	}
	return nil
}

// open opens the folder of a link, and returns it with the link's name there.
func (f Folder) open(link string, create bool) (folder int, name string, err error) {
	class, name, ok := strings.Cut(strings.TrimPrefix(link, f.Path+"/"), "/")
	if !ok || path.Clean(link) != link || !strings.HasPrefix(link, f.Path+"/") || class == "" || name == "" || strings.Contains(name, "/") {
		return 0, "", fmt.Errorf("the link %s is not %s/CLASS/ID", link, f.Path)
	}
	folder, err = f.enter(class, create)
	return folder, name, err
}

// enter opens the folder of a class.
func (f Folder) enter(class string, create bool) (int, error) {
	at, err := unix.Open(f.Base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", f.Base, err)
	}
	folder := path.Join(f.Path, class)
	for element := range strings.SplitSeq(strings.TrimPrefix(folder, path.Clean(f.Base)+"/"), "/") {
		next, err := enter(at, element, create)
		_ = unix.Close(at)
		if err != nil {
			return 0, fmt.Errorf("open %s of %s: %w", element, folder, err)
		}
		at = next
	}
	return at, nil
}

// enter opens a folder in another one, and creates it if create is set.
func enter(at int, name string, create bool) (int, error) {
	if create {
		if err := unix.Mkdirat(at, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return 0, err
		}
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0) { // as root
		err = fmt.Errorf("the folder belongs to user %d with mode %o, and must be writable by its owner only: remove it", st.Uid, st.Mode&0o7777)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}
