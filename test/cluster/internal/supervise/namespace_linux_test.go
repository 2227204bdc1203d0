// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces")
	}
}

// TestNamespace: a process that is put beside the first of a PID namespace sees that as process
// 1, is killed and reaped like any other, and ends with it.
func TestNamespace(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s, dir := newSupervisor(t)
	first, err := s.Start(Spec{
		Path: "/bin/sleep", Args: []string{"600"}, Log: filepath.Join(dir, "first"), Namespaces: syscall.CLONE_NEWPID,
	})
	if err != nil {
		t.Fatal(err)
	}
	beside := func(name, script string) *Process {
		p, err := s.Start(Spec{
			Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(dir, name), Beside: first.PID(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}

	// The kernel numbers a namespace's processes from 1 on.
	if got := beside("second", "echo $$").Exit(); got != (Exit{}) {
		t.Errorf("a process beside the first %s", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "second")); err != nil || string(got) != "2\n" {
		t.Errorf("its number is %q, %v, want 2", got, err)
	}
	ours, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.Readlink("/proc/self/ns/pid"); err != nil || ours != want {
		t.Errorf("the supervisor's next child would be in %s, want %s (%v)", ours, want, err)
	}

	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	third := beside("third", "setsid sleep 600 >"+fifo+" & wait")
	r, err := os.Open(fifo) // returns once there is a writer
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want := Exit{Code: -1, Signal: syscall.SIGKILL}
	if diff := cmp.Diff([]Exit{want, want}, []Exit{first.Exit(), third.Exit()}); diff != "" {
		t.Errorf("exits (-want +got):\n%s", diff)
	}
	if _, err := io.ReadAll(r); err != nil { // ends with the writer, which left its process group
		t.Fatal(err)
	}
	if _, err := s.Start(Spec{Path: "/bin/true", Log: filepath.Join(dir, "late"), Beside: first.PID()}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("beside a process that has ended: %v, want that it is not there", err)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	s, dir := newSupervisor(t)
	groups := filepath.Join(t.TempDir(), "groups")
	file := filepath.Join(t.TempDir(), "record")
	if err := errors.Join(os.MkdirAll(filepath.Join(groups, "a", "b"), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for _, path := range []string{groups, file, missing} {
		if err := s.Prune(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{groups, file} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}

	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "foreign"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Prune(full); err == nil {
		t.Error("it removes a folder that has files")
	}
}
