// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
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
	if got := beside("second", "echo $$").Exit(); !got.Success() {
		t.Errorf("a process beside the first: %s", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "second")); err != nil || string(got) != "2\n" {
		t.Errorf("its number is %q, %v, want 2", got, err)
	}
	third, err := s.Start(Spec{Path: "/bin/sh", Args: []string{"-c", "readlink /proc/self/ns/pid"}, Log: filepath.Join(dir, "third")})
	if err != nil {
		t.Fatal(err)
	}
	<-third.Done()
	ours, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "third")); err != nil || string(got) != ours+"\n" {
		t.Errorf("the next child is in %q, %v, want %s", got, err, ours)
	}

	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	fourth := beside("fourth", "setsid sleep 600 >"+fifo+" & wait")
	r, err := os.Open(fifo) // returns once there is a writer
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	const want = "signal: killed"
	if diff := cmp.Diff([]string{want, want}, []string{first.Exit().String(), fourth.Exit().String()}); diff != "" {
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
		s.Prune(path)
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

// TestCloseWithDaemon: a process that has left its group does not delay Close.
func TestCloseWithDaemon(t *testing.T) {
	t.Parallel()
	s, dir := newSupervisor(t)
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	shell(t, s, dir, "setsid sh -c 'echo $$ >"+fifo+"; exec sleep 600' & wait")
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("end the daemon: %v", err)
	}
}

// TestClientIsKilled: when the client is killed, the process group of each child ends and the
// folder is removed, unless the supervisor process was killed before, which a signal to end does
// not do.
func TestClientIsKilled(t *testing.T) {
	t.Parallel()
	const child, grandchild = "exec sleep 600 >fifo", "sleep 600 >fifo & wait"
	tests := map[string]struct {
		script string
		before syscall.Signal
		kept   bool
	}{
		"the folder is removed":                       {script: grandchild},
		"the supervisor process was asked to end":     {script: grandchild, before: syscall.SIGTERM},
		"the supervisor process was killed: it stays": {script: child, before: syscall.SIGKILL, kept: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "owned")
			fifo := filepath.Join(dir, "fifo")
			if err := errors.Join(os.Mkdir(dir, 0o755), syscall.Mkfifo(fifo, 0o600)); err != nil {
				t.Fatal(err)
			}
			client := exec.CommandContext(t.Context(), os.Args[0])
			client.Env = append(os.Environ(), clientEnv+"="+dir, scriptEnv+"="+tc.script)
			out, err := client.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Start(); err != nil {
				t.Fatal(err)
			}
			var supervisor int
			if _, err := fmt.Fscan(out, &supervisor); err != nil {
				t.Fatal(err)
			}
			pidfd, err := unix.PidfdOpen(supervisor, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pidfd)
			last, err := os.Open(fifo) // returns once there is a writer
			if err != nil {
				t.Fatal(err)
			}
			defer last.Close()
			if tc.before != 0 {
				if err := syscall.Kill(supervisor, tc.before); err != nil {
					t.Fatal(err)
				}
			}
			if err := client.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = client.Wait()                           // that it was killed
			if _, err := io.ReadAll(last); err != nil { // ends with the process that writes
				t.Fatal(err)
			}
			ended := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
			for errors.Is(poll(ended), unix.EINTR) {
			}
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) == tc.kept {
				t.Errorf("stat of the folder: %v, want it kept: %t", err, tc.kept)
			}
		})
	}
}

func poll(fds []unix.PollFd) error {
	_, err := unix.Poll(fds, 30_000)
	return err
}
