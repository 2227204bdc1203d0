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
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(clientEnv); dir != "" {
		actAsClient(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// newSupervisor returns a supervisor and the folder it owns.
func newSupervisor(t *testing.T) (*Supervisor, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "owned")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

// shell starts a script whose output goes to a log, and returns the log's path.
func shell(t *testing.T, s *Supervisor, dir, script string) (*Process, string) {
	t.Helper()
	log := filepath.Join(dir, "log")
	p, err := s.Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"GREETING=hello"}, Dir: dir, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return p, log
}

func TestExit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script string
		signal syscall.Signal
		want   string
	}{
		"success":                {script: "exit 0", want: "exit status 0"},
		"a status is passed on":  {script: "exit 3", want: "exit status 3"},
		"its own signal":         {script: "kill -KILL $$", want: "signal: killed"},
		"a signal that is sent":  {script: "sleep 600", signal: syscall.SIGTERM, want: "signal: terminated"},
		"a signal none survives": {script: "trap '' TERM; sleep 600", signal: syscall.SIGKILL, want: "signal: killed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := newSupervisor(t)
			p, _ := shell(t, s, dir, tc.script)
			if tc.signal != 0 {
				if err := p.Signal(tc.signal); err != nil {
					t.Fatal(err)
				}
			}
			if got := p.Exit().String(); got != tc.want {
				t.Errorf("the process ended with %q, want %q", got, tc.want)
			}
		})
	}
}

func TestGrandchildren(t *testing.T) {
	t.Parallel()
	s, dir := newSupervisor(t)
	// The pipe's writing end is held open by the grandchild alone: reading it
	// ends when the grandchild does.
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := shell(t, s, dir, "sleep 600 >fifo & wait")
	r, err := os.Open(fifo) // returns once there is a writer
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
}

func TestSurroundings(t *testing.T) {
	t.Parallel()
	s, dir := newSupervisor(t)
	first, log := shell(t, s, dir, `pwd; echo "$GREETING"; echo oops >&2`)
	<-first.Done()
	second, _ := shell(t, s, dir, "echo again")
	<-second.Done()
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dir+"\nhello\noops\nagain\n", string(got)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec func(dir string) Spec
		want string
	}{
		"no such program": {
			spec: func(dir string) Spec {
				return Spec{Path: filepath.Join(dir, "missing"), Log: filepath.Join(dir, "log")}
			},
			want: "missing: no such file or directory",
		},
		"no such folder for the log": {
			spec: func(dir string) Spec { return Spec{Path: "/bin/sh", Log: filepath.Join(dir, "missing", "log")} },
			want: "log: no such file or directory",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := newSupervisor(t)
			if _, err := s.Start(tc.spec(dir)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
			if p, _ := shell(t, s, dir, "exit 0"); !p.Exit().Success() {
				t.Errorf("the next process: %s", p.Exit())
			}
		})
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"the folder is removed": false, "the folder stays": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := newSupervisor(t)
			s.Keep(keep)
			p, _ := shell(t, s, dir, "trap '' TERM INT HUP; sleep 600")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got, want := p.Exit().String(), "signal: killed"; got != want {
				t.Errorf("the process ended with %q, want %q", got, want)
			}
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) == keep {
				t.Errorf("stat of the folder: %v, want it kept: %t", err, keep)
			}
			if _, err := s.Start(Spec{Path: "/bin/sh", Log: os.DevNull}); err == nil || !strings.Contains(err.Error(), "closed") {
				t.Errorf("start after close: %v, want that it is closed", err)
			}
			if err := p.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("signal after close: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("second close: %v", err)
			}
		})
	}
}

// clientEnv makes the test binary start a process in the folder that it names, and wait to be
// killed. The process runs the script of scriptEnv.
const (
	clientEnv = "SUPERVISE_TEST_CLIENT"
	scriptEnv = "SUPERVISE_TEST_SCRIPT"
)

func actAsClient(dir string) {
	s, err := New(dir)
	if err != nil {
		panic(err)
	}
	p, err := s.Start(Spec{Path: "/bin/sh", Args: []string{"-c", os.Getenv(scriptEnv)}, Dir: dir, Log: filepath.Join(dir, "log")})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.PID())
	<-p.Done()
}
