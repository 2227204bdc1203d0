// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// maxTold bounds the cache. An evicted entry costs one open(2).
const maxTold = 4096

// seen is an inode as one mount shows it.
type seen struct {
	mount, inode uint64
	sec          int64
	nsec         uint32
	// sure reports whether no other inode and no other mount can have the same values. Kernels
	// before 6.8 reuse mount IDs, and without birth times reused inodes are not detected.
	sure bool
}

// told is the identity found there.
type told disk.Identity

var errExchanged = errors.New("it was mounted, unmounted or exchanged while it was examined")

// tell returns the identity of what is at a path, from the cache if the same mount and inode
// are still there. Otherwise both are compared before and after identify, and it is an error
// if they differ. A UUID that an administrator changes under a mounted file system is noticed
// by Identify only, or at the next mount.
func (e *entry) tell(at string, identify func() (disk.Identity, error), also func() error) (disk.Identity, error) {
	key, err := seenAt(at)
	if err != nil {
		return "", err
	}
	e.mu.Lock()
	remembered, known := e.known[key]
	e.mu.Unlock()
	id := disk.Identity(remembered)
	if !known || e.fresh {
		if id, err = identify(); err != nil {
			return "", err
		}
	}
	if err := also(); err != nil {
		return "", err
	}
	if again, err := seenAt(at); err != nil || again != key {
		return "", errors.Join(errExchanged, err)
	}
	if !key.sure {
		return id, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.known) >= maxTold {
		clear(e.known)
	}
	e.known[key] = told(id)
	return id, nil
}

// seenAt returns what is at a path.
func seenAt(at string) (seen, error) {
	const unique = unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID_UNIQUE
	st, err := statx(at, unique|unix.STATX_MNT_ID)
	if err != nil {
		return seen{}, err
	}
	return seen{
		mount: st.Mnt_id, inode: st.Ino, sec: st.Btime.Sec, nsec: st.Btime.Nsec,
		sure: st.Mask&unique == unique,
	}, nil
}
