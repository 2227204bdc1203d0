// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"errors"
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

// serveEnv makes the test binary act as the supervisor.
const serveEnv = "SUPERVISE_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		if err := Serve(os.Args[1], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := os.Setenv(serveEnv, "1"); err != nil {
		panic(err)
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
	s, err := New(os.Args[0], dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && s.cmd.ProcessState.Success() {
			t.Error(err)
		}
	})
	return s, dir
}

// shell starts a script whose output goes to a log, and returns the log's path.
func shell(t *testing.T, s *Supervisor, dir, script string) (*Process, string) {
	t.Helper()
	log := filepath.Join(dir, "log")
	p, err := s.Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"STORY=told"}, Dir: dir, Log: log})
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
		want   Exit
		text   string
	}{
		"success":                {script: "exit 0", text: "exited with status 0"},
		"a status is passed on":  {script: "exit 3", want: Exit{Code: 3}, text: "exited with status 3"},
		"its own signal":         {script: "kill -KILL $$", want: Exit{Code: -1, Signal: syscall.SIGKILL}, text: "ended by signal 9 (killed)"},
		"a signal that is sent":  {script: "sleep 600", signal: syscall.SIGTERM, want: Exit{Code: -1, Signal: syscall.SIGTERM}, text: "ended by signal 15 (terminated)"},
		"a signal none survives": {script: "trap '' TERM; sleep 600", signal: syscall.SIGKILL, want: Exit{Code: -1, Signal: syscall.SIGKILL}, text: "ended by signal 9 (killed)"},
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
			if diff := cmp.Diff(tc.want, p.Exit()); diff != "" {
				t.Errorf("exit (-want +got):\n%s", diff)
			}
			if got := p.Exit().String(); got != tc.text {
				t.Errorf("exit reads %q, want %q", got, tc.text)
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
	first, log := shell(t, s, dir, `pwd; echo "$STORY"; echo oops >&2`)
	<-first.Done()
	second, _ := shell(t, s, dir, "echo again")
	<-second.Done()
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dir+"\ntold\noops\nagain\n", string(got)); diff != "" {
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
			if p, _ := shell(t, s, dir, "exit 0"); p.Exit() != (Exit{}) {
				t.Errorf("the next process %s", p.Exit())
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
			if err := s.Keep(keep); err != nil {
				t.Fatal(err)
			}
			p, _ := shell(t, s, dir, "trap '' TERM INT HUP; sleep 600")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got, want := p.Exit(), (Exit{Code: -1, Signal: syscall.SIGKILL}); got != want {
				t.Errorf("the process %s, want %s", got, want)
			}
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) == keep {
				t.Errorf("stat of the folder: %v, want it kept: %t", err, keep)
			}
			if _, err := s.Start(Spec{Path: "/bin/sh"}); !errors.Is(err, errLost) {
				t.Errorf("start after close: %v, want %v", err, errLost)
			}
			if err := p.Signal(syscall.SIGTERM); !errors.Is(err, errLost) {
				t.Errorf("signal after close: %v, want %v", err, errLost)
			}
			if err := s.Close(); err != nil {
				t.Errorf("second close: %v", err)
			}
		})
	}
}

func TestSupervisorEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		signal syscall.Signal
		want   Exit
		gone   bool
	}{
		"asked to end, it cleans up":       {signal: syscall.SIGTERM, want: Exit{Code: -1, Signal: syscall.SIGKILL}, gone: true},
		"killed, its processes count lost": {signal: syscall.SIGKILL, want: Exit{Code: -1, Lost: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := newSupervisor(t)
			p, _ := shell(t, s, dir, "exec sleep 600")
			if err := syscall.Kill(s.PID(), tc.signal); err != nil {
				t.Fatal(err)
			}
			if got := p.Exit(); got != tc.want {
				t.Errorf("the process %s, want %s", got, tc.want)
			}
			_ = s.Close() // waits; the error is the supervisor's exit
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) != tc.gone {
				t.Errorf("stat of the folder: %v, want it removed: %t", err, tc.gone)
			}
		})
	}
}
