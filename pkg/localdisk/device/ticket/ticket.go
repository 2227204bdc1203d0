// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ticket prevents the provisioner and the Jobs that clean its disks from using a disk
// at the same time. A Job starts only with the ticket that the provisioner has left for it, a
// file, and holds it by flock(2) while any of its processes lives. The provisioner withdraws a
// ticket before it does anything with the disk itself: after that no Job starts with it, and a
// running Job makes the withdrawal fail.
//
// That is independent of what the API server shows: a pod that starts late, or that was
// force-deleted and still runs, changes nothing.
package ticket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Folder is where tickets are, a path. It is made when it is needed, and removed when it
// is empty.
type Folder string

// Issue leaves the ticket of an attempt at a disk.
func (f Folder) Issue(identity disk.Identity, attempt string) error {
	for {
		if err := os.Mkdir(string(f), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("issue a ticket for a Job: %w", err)
		}
		file, err := os.OpenFile(filepath.Join(string(f), cleanjob.Ticket(identity, attempt)), os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o600)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the folder was empty, and removed
			continue
		case err != nil:
			return fmt.Errorf("issue a ticket for a Job: %w", err)
		}
		return file.Close()
	}
}

// Find returns the attempt at a disk that has a ticket; empty if none has.
func (f Folder) Find(identity disk.Identity) (attempt string, err error) {
	names, err := f.of(identity)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return strings.TrimPrefix(names[len(names)-1], cleanjob.TicketPrefix(identity)), nil
}

// Withdraw removes all tickets of a disk. A *disk.Problem, VolumeInUse, means that a Job is
// running.
func (f Folder) Withdraw(identity disk.Identity) error {
	names, err := f.of(identity)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(string(f), name)
		held, err := hold(path, unix.O_CLOEXEC)
		if err == nil {
			err = os.Remove(path)
			_ = held.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(names) > 0 {
		_ = os.Remove(string(f)) // unless others are in it
	}
	return nil
}

// of returns the names of a disk's tickets.
func (f Folder) of(identity disk.Identity) ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the tickets of Jobs: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), cleanjob.TicketPrefix(identity)) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Hold locks the ticket at a path, for this process and its children: until they have ended,
// or the file is closed and they have. fs.ErrNotExist means that the ticket was withdrawn; a
// *disk.Problem, VolumeInUse, that another process has it.
func Hold(path string) (*os.File, error) {
	return hold(path, 0) // inherited: no child process outlives the lock
}

func hold(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open ticket %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	if err := lock(fd, path); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// lock locks an open ticket, which may have been withdrawn since it was opened.
func lock(fd int, path string) error {
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return disk.Problemf(disk.VolumeInUse, "another process, of a cleaning Job, holds ticket %s", path)
	case err != nil:
		return fmt.Errorf("hold ticket %s: %w", path, err)
	case st.Nlink == 0:
		return fmt.Errorf("hold ticket %s: %w", path, fs.ErrNotExist)
	default:
		return nil
	}
}
