// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Identify returns the identity of what is at a fact's path now, to verify it before data is
// destroyed. Nothing is cached. An error is a *disk.Problem: Missing if nothing is there,
// MountMissing if a mount is missing (never the identity of the directory below), Replaced if
// something of another kind is there, else why it cannot be determined.
func (p *Prober) Identify(ctx context.Context, f disk.Fact) (disk.Identity, error) {
	v, err := p.view()
	if err != nil {
		return "", disk.Problemf(disk.Unreadable, "%s was not examined: %v", f.HostPath, err)
	}
	now, problem := callWithin(ctx, p, f.Path, func() *disk.Fact { return p.identify(v, f) })
	switch {
	case problem != nil:
		return "", problem
	case now == nil:
		return "", disk.Problemf(disk.Missing, "nothing is at %s", f.HostPath)
	case f.Kind != "" && now.Kind != "" && now.Kind != f.Kind:
		if f.Kind == disk.Mount && now.Kind == disk.Directory {
			return "", disk.Problemf(disk.MountMissing, "nothing is mounted at %s", f.HostPath)
		}
		return "", disk.Problemf(disk.Replaced, "at %s is now a %s, and was a %s", f.HostPath, now.Kind, f.Kind)
	case now.Identity == "" && now.Problem != nil:
		return "", now.Problem
	case now.Identity == "":
		return "", disk.Problemf(disk.Unreadable, "what is at %s cannot be identified", f.HostPath)
	}
	return now.Identity, nil
}

// identify examines a path as an entry of its folder.
func (p *Prober) identify(v *view, f disk.Fact) *disk.Fact {
	folder := disk.Folder{
		Class: f.Class, Path: path.Dir(f.Path), HostPath: path.Dir(f.HostPath), Mode: disk.Filesystem,
	}
	if f.Kind == disk.Directory {
		folder.Directories = []string{"*"}
	}
	at, st, err := v.walk("/", folder.Path)
	l := &listing{Folder: folder, at: at}
	e := p.entry(v, l, path.Base(f.Path))
	e.wasMount, e.fresh = f.Kind == disk.Mount, true
	if err != nil {
		return e.fail(err)
	}
	m, ok := v.self.Over(at)
	if !ok {
		return e.reject(disk.Unreadable, "%s is on no known mount", f.HostPath)
	}
	l.mount, l.mountID = m, st.Mnt_id
	return e.examine()
}

// maxKnown bounds the cache. An evicted entry costs one open(2).
const maxKnown = 4096

// inode is an inode as one mount shows it.
type inode struct {
	mount, inode uint64
	sec          int64
	nsec         uint32
	// unique reports whether no other inode and no other mount can have the same values. Kernels
	// before 6.8 reuse mount IDs, and without birth times reused inodes are not detected.
	unique bool
}

var errExchanged = errors.New("it was mounted, unmounted or exchanged while it was examined")

// identityOf returns the identity of what is at a path, from the cache if the same mount and
// inode are still there. Both are compared before and after identify and measure, and it is an
// error if they differ. A UUID that an administrator changes under a mounted file system is noticed
// by Identify only, or at the next mount.
func (e *entry) identityOf(at string, identify func() (disk.Identity, error), measure func() error) (disk.Identity, error) {
	key, err := inodeAt(at)
	if err != nil {
		return "", err
	}
	e.mu.Lock()
	id, known := e.known[key]
	e.mu.Unlock()
	if !known || e.fresh {
		if id, err = identify(); err != nil {
			return "", err
		}
	}
	if err := measure(); err != nil {
		return "", err
	}
	if again, err := inodeAt(at); err != nil || again != key {
		return "", errors.Join(errExchanged, err)
	}
	if !key.unique {
		return id, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.known) >= maxKnown {
		clear(e.known)
	}
	e.known[key] = id
	return id, nil
}

// inodeAt returns what is at a path.
func inodeAt(at string) (inode, error) {
	const unique = unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID_UNIQUE
	st, err := statx(at, unique|unix.STATX_MNT_ID)
	if err != nil {
		return inode{}, err
	}
	return inode{
		mount: st.Mnt_id, inode: st.Ino, sec: st.Btime.Sec, nsec: st.Btime.Nsec,
		unique: st.Mask&unique == unique,
	}, nil
}
