// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/deadline"
)

// faulty is a folder that fails at a given operation, before or after it.
type faulty struct {
	folder
	before, after map[string]error
}

func (f *faulty) do(what string, call func() error) error {
	if err := f.before[what]; err != nil {
		return err
	}
	return errors.Join(call(), f.after[what])
}

func (f *faulty) write(name string, data []byte) error {
	return f.do("write", func() error { return f.folder.write(name, data) })
}

func (f *faulty) rename(from, to string) error {
	return f.do("rename", func() error { return f.folder.rename(from, to) })
}

func (f *faulty) remove(name string) error {
	return f.do("remove", func() error { return f.folder.remove(name) })
}

func (f *faulty) sync() error { return f.do("sync", f.folder.sync) }

// TestFailedWrites: the store returns what it returned before, and the next write succeeds
// when the fault is over.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	fault := errors.New("input/output error")
	for name, files := range map[string]*faulty{
		"nothing can be written":      {before: map[string]error{"write": fault}},
		"not all can be written":      {after: map[string]error{"write": fault}},
		"nothing can be renamed":      {before: map[string]error{"rename": fault}},
		"the folder cannot be synced": {after: map[string]error{"sync": fault}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			put(t, s, record("wwn:0x1"), record("wwn:0x2"))
			before, sound := summary(s), s.folder
			files.folder = sound
			s.folder = files
			if err := s.Put(record("wwn:0x3")); !errors.Is(err, fault) {
				t.Errorf("Put: %v, want the fault", err)
			}
			if err := s.Put(inState("wwn:0x1", disk.Cleaning)); !errors.Is(err, fault) {
				t.Errorf("Put again: %v, want the fault", err)
			}
			if files.after["sync"] != nil {
				if err := s.Delete("wwn:0x2"); !errors.Is(err, fault) {
					t.Errorf("Delete: %v, want the fault", err)
				}
			}
			if got := summary(s); got != before {
				t.Errorf("the store returns %q, and returned %q", got, before)
			}
			s.folder = sound
			put(t, s, record("wwn:0x3"))
			if err := s.Delete("wwn:0x2"); err != nil {
				t.Error(err)
			}
			names, err := sound.names()
			if err != nil || len(names) != 2 || !ofRecord(names[0]) || !ofRecord(names[1]) {
				t.Errorf("files: %v, %v; want those of two records", names, err)
			}
		})
	}
}

// slow is a folder whose sync blocks until it is released.
type slow struct {
	folder
	syncing, release chan struct{}
}

func (f *slow) sync() error {
	f.syncing <- struct{}{}
	<-f.release
	return f.folder.sync()
}

// Reads return what is on disk while a write waits for the disk.
func TestReadersDoNotWaitForTheDisk(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	put(t, s, record("wwn:0x1"))
	before, files := summary(s), &slow{s.folder, make(chan struct{}), make(chan struct{})}
	s.folder = files
	done := make(chan error, 1)
	go func() { done <- s.Put(inState("wwn:0x1", disk.Cleaning)) }()
	select {
	case <-files.syncing:
	case err := <-done:
		t.Fatalf("the write did not wait for the disk: %v", err)
	}
	if got := summary(s); got != before {
		t.Errorf("while it is written the store returns %q, want %q", got, before)
	}
	if _, ok := get(t, s, "wwn:0x1"); !ok || len(s.Damaged()) > 0 {
		t.Error("while it is written the record is not there")
	}
	close(files.release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := summary(s); got == before {
		t.Errorf("after the write the store returns %q still", got)
	}
}

// killedIn makes the test binary write records to a folder until it is killed.
const killedIn = "STOWAGE_TEST_WRITE_UNTIL_KILLED_IN"

func writeUntilKilled() {
	folder := os.Getenv(killedIn)
	if folder == "" {
		return
	}
	s, err := Open(folder, "/proc")
	for i := int64(1); err == nil; i++ {
		r := record("wwn:0x1")
		r.Generation, r.Step = i, strings.Repeat("x", int(i%4096))
		if err = s.Put(r); err == nil {
			_, err = fmt.Fprintln(os.Stdout, i)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestKilledWriter kills real processes while they write: what they acknowledged
// is on disk, and the lock is free.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for kill := range 8 {
		acknowledged := runAndKill(t, folder, 20+7*kill)
		s := open(t, folder)
		r, ok := get(t, s, "wwn:0x1")
		if !ok || r.Generation != acknowledged && r.Generation != acknowledged+1 {
			t.Errorf("generation %d, %t; acknowledged was %d", r.Generation, ok, acknowledged)
		}
		if names, err := s.folder.names(); err != nil || len(names) != 1 {
			t.Errorf("files: %v, %v; want one", names, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runAndKill returns the last write that the process acknowledged.
func runAndKill(t *testing.T, folder string, writes int) int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), killedIn+"="+folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(deadline.Wait(), func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	var last int64
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); seen++ {
		if last, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			t.Error(err)
		}
		if seen == writes {
			_ = cmd.Process.Kill() // what it has written until it dies is read still
		}
	}
	_ = cmd.Wait() // killed
	return last
}
