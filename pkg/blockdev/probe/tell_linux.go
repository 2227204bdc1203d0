// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/local/disk"
)

// maxTold bounds what is remembered. Forgetting costs one open(2) for each.
const maxTold = 4096

// seen is an inode as one mount shows it. Mounts are told by the number that no two
// of them have, not even one after the other.
type seen struct {
	mount, inode uint64
	sec          int64
	nsec         uint32
}

// told is an identity that was found out there.
type told disk.Identity

// tell returns the identity of what is at a path, remembered if the same mount and
// inode are still there. A UUID that an administrator changes under a mounted file
// system is noticed by Identify only, or once it is mounted anew.
func (e *entry) tell(at string, identify func() (disk.Identity, error)) (disk.Identity, error) {
	key, ok := seenAt(at)
	if !ok || e.fresh {
		return identify()
	}
	e.mu.Lock()
	id, known := e.known[key]
	e.mu.Unlock()
	if known {
		return disk.Identity(id), nil
	}
	fresh, err := identify()
	if err != nil {
		return "", err
	}
	if again, ok := seenAt(at); !ok || again != key {
		return fresh, nil // exchanged meanwhile; the next look will tell
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.known) >= maxTold {
		clear(e.known)
	}
	e.known[key] = told(fresh)
	return fresh, nil
}

// seenAt says what is at a path; not ok if the kernel (before 6.8) does not number
// mounts for good, or the file system keeps no birth times: then inodes are used
// again unnoticed.
func seenAt(at string) (seen, bool) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	const mask = unix.STATX_INO | unix.STATX_BTIME | unix.STATX_MNT_ID_UNIQUE
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, at, flags, mask, &st); err != nil || st.Mask&mask != mask {
		return seen{}, false
	}
	return seen{mount: st.Mnt_id, inode: st.Ino, sec: st.Btime.Sec, nsec: st.Btime.Nsec}, true
}
