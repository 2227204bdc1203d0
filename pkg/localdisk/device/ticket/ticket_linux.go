// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ticket keeps a node's agent and the Jobs that clean its disks apart. A Job
// begins only with the ticket that the agent has left for it, a file, and holds it by
// flock(2) for as long as any of its processes lives. The agent takes a ticket back
// before it does anything with the disk itself: from then on no Job begins with it, and
// one that is at work keeps the agent from taking it.
//
// That holds whatever the API server says of Job and pod: a pod that starts late, or
// that was deleted by force and runs on, changes nothing of it.
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

// Find is the attempt at a disk that a ticket is out for; empty if there is none.
func (f Folder) Find(identity disk.Identity) (attempt string, err error) {
	names, err := f.of(identity)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return strings.TrimPrefix(names[len(names)-1], cleanjob.TicketPrefix(identity)), nil
}

// Withdraw takes back all tickets of a disk. A *disk.Problem, VolumeInUse, says that a
// Job is at work.
func (f Folder) Withdraw(identity disk.Identity) error {
	names, err := f.of(identity)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := withdraw(filepath.Join(string(f), name)); err != nil {
			return err
		}
	}
	if len(names) > 0 {
		_ = os.Remove(string(f)) // unless others are in it
	}
	return nil
}

func withdraw(path string) error {
	held, err := hold(path, unix.O_CLOEXEC)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("take a ticket back: %w", err)
	}
	return nil
}

// of are the names of a disk's tickets.
func (f Folder) of(identity disk.Identity) ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for tickets of Jobs: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), cleanjob.TicketPrefix(identity)) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Hold takes the ticket at a path, for this process and all that it starts: until they
// have ended, or the file is closed and they have. An error that is fs.ErrNotExist says
// that the ticket was taken back; a *disk.Problem, VolumeInUse, that somebody else has
// it.
func Hold(path string) (*os.File, error) {
	return hold(path, 0) // inherited: no command of ours outlives the ticket
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

// lock locks an open ticket, which may have been taken back since it was opened.
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
