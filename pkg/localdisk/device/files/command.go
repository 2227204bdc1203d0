// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// environment names the variable with the root's path.
	environment = "LOCAL_PV_FILESYSTEM"
	// outputGrace is how long output is waited for that a process outside the
	// command's group keeps open.
	outputGrace = 2 * time.Second
	// tailBytes is how much of a command's output is part of an error.
	tailBytes = 2048
)

// Run cleans the volume by a configured command: an absolute path and arguments. The command
// has the root's path in LOCAL_PV_FILESYSTEM. Nothing is open in the volume while it runs. The
// command and its process group are killed when ctx ends, and what remains of the group when
// the command exits or the provisioner does.
//
// Afterwards the root is verified again and must be empty, as by Empty; else the error is
// NotEmptyError. Then everything is synced. Mounts below the root are searched for before, as
// by Clean. The error of a failed command has the end of its output.
func (r *Root) Run(ctx context.Context, command []string) error {
	if len(command) == 0 || !filepath.IsAbs(command[0]) {
		return fmt.Errorf("clean %s: command %q is not an absolute path", r.path, command)
	}
	if err := r.do(r.checkMounts); err != nil {
		return err
	}
	if err := execute(ctx, command, r.path); err != nil {
		return fmt.Errorf("clean %s by %q: %w", r.path, command, err)
	}
	if err := r.do(func(root int) error { return flush(root, r.path) }); err != nil {
		return err
	}
	content, what, err := r.Empty(ctx)
	if err != nil {
		return err
	}
	if content != disk.ContentNone {
		return &NotEmptyError{Path: r.path, What: what}
	}
	return nil
}

// execute runs a command to its end, and kills what it leaves of its process group.
func execute(ctx context.Context, command []string, path string) error {
	// The kernel sends Pdeathsig when the thread ends that started the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	output, group := &tail{}, &group{}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), environment+"="+path)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = outputGrace
	cmd.Cancel = func() error { return group.kill(cmd.Process.Pid) }
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	killErr := group.end(cmd.Process.Pid)
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped: %w%s", context.Cause(ctx), output)
	case err != nil:
		return fmt.Errorf("%w%s", err, output)
	case killErr != nil:
		return fmt.Errorf("kill what is left of its process group: %w", killErr)
	}
	return nil
}

// group is a process group that is killed only while its number is not reused: until its
// leader, the command, has been waited for.
type group struct {
	mu    sync.Mutex
	ended bool
}

func (g *group) kill(leader int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return os.ErrProcessDone
	}
	return unix.Kill(-leader, unix.SIGKILL)
}

// end waits for the leader to exit, leaves it to be waited for, and kills the rest.
func (g *group) end(leader int) error {
	var err error = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, leader, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	if err := unix.Kill(-leader, unix.SIGKILL); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}

// tail keeps the last bytes that were written to it.
type tail struct {
	bytes []byte
	cut   bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - tailBytes; over > 0 {
		t.bytes, t.cut = append([]byte(nil), t.bytes[over:]...), true
	}
	return len(p), nil
}

// String is what the tail adds to an error: nothing if nothing was written.
func (t *tail) String() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.bytes), "?"))
	if text == "" {
		return ""
	}
	if t.cut {
		text = "..." + text
	}
	return "; output: " + text
}
