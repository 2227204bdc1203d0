// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

const one, other = disk.Identity("fs:one:/"), disk.Identity("fs:other:/")

func newFolder(t *testing.T) Folder {
	t.Helper()
	return Folder(filepath.Join(t.TempDir(), "stowage"))
}

func (f Folder) path(identity disk.Identity, attempt string) string {
	return filepath.Join(string(f), cleanjob.Ticket(identity, attempt))
}

func inUse(err error) bool {
	problem, ok := errors.AsType[*disk.Problem](err)
	return ok && problem.Reason == disk.VolumeInUse
}

func TestTicket(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	if attempt, err := f.Find(one); attempt != "" || err != nil {
		t.Fatalf("before any was issued: %q, %v", attempt, err)
	}
	if err := errors.Join(f.Withdraw(one), f.Issue(one, "a1"), f.Issue(other, "b1")); err != nil {
		t.Fatal(err)
	}
	if attempt, err := f.Find(one); attempt != "a1" || err != nil {
		t.Fatalf("found %q, %v", attempt, err)
	}
	held, err := Hold(f.path(one, "a1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Hold(f.path(one, "a1")); !inUse(err) {
		t.Errorf("a second Job takes the same ticket: %v", err)
	}
	if err := f.Withdraw(one); !inUse(err) {
		t.Errorf("withdrawn from a Job that is at work: %v", err)
	}
	if err := f.Withdraw(other); err != nil {
		t.Errorf("that of another disk: %v", err)
	}
	if err := errors.Join(held.Close(), f.Withdraw(one)); err != nil {
		t.Fatal(err)
	}
	if _, err := Hold(f.path(one, "a1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a Job begins late: %v", err)
	}
	if _, err := os.Stat(string(f)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder of nothing stays: %v", err)
	}
}

// TestTicketWithdrawnBeforeItIsLocked: a Job that has opened the file, and gets the lock
// after the provisioner has withdrawn the ticket.
func TestTicketWithdrawnBeforeItIsLocked(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	if err := f.Issue(one, "a1"); err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(f.path(one, "a1"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	if err := f.Withdraw(one); err != nil {
		t.Fatal(err)
	}
	if err := lock(int(opened.Fd()), opened.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a ticket that was withdrawn is held: %v", err)
	}
}

// TestProgramsHoldTheTicket: the lock lasts until the last program has ended that a Job
// has started, although the Job itself is gone.
// Not parallel: until the program is executed, its process holds the locks of other tests too.
func TestProgramsHoldTheTicket(t *testing.T) {
	f := newFolder(t)
	if err := f.Issue(one, "a1"); err != nil {
		t.Fatal(err)
	}
	held, err := Hold(f.path(one, "a1"))
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command("cat")
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Withdraw(one); !inUse(err) {
		t.Errorf("withdrawn from a program that is at work: %v", err)
	}
	if err := errors.Join(in.Close(), program.Wait(), f.Withdraw(one)); err != nil {
		t.Error(err)
	}
}

// TestFolderIsRemovedWhenEmpty, with many disks at a time.
func TestFolderIsRemovedWhenEmpty(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			identity := disk.Identity(fmt.Sprintf("fs:%d:/", i))
			for range 200 {
				if err := errors.Join(f.Issue(identity, "a"), f.Withdraw(identity)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
