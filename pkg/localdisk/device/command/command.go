// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command runs the commands and tools that clean disks, each in its own process group.
package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outputDelay is how long output is waited for after a command has ended and its process group
// was killed: a process that left the group may hold it open. Run fails if it still does then. One
// value is for commands on file systems and on devices: a longer wait fails fewer cleans.
const outputDelay = 5 * time.Second

// OutputBytes is how much of a command's output is part of its error.
const OutputBytes = 2048

// Run runs a command in / and returns when it has ended; the error has the end of its output,
// as far as cmd.Stdout does not take it. The command's process group is killed when ctx ends,
// when the command exits, and when this process does.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	// The kernel sends Pdeathsig when the thread that started the command ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var out tail
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &out
	cmd.Dir, cmd.WaitDelay = "/", outputDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	killErr := end(ctx, cmd.Process.Pid)
	err := cmd.Wait()
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return out.quote(cause)
	case err != nil:
		return out.quote(fmt.Errorf("run %s: %w", filepath.Base(cmd.Path), err))
	case killErr != nil:
		return fmt.Errorf("kill the process group of %s: %w", filepath.Base(cmd.Path), killErr)
	}
	return nil
}

// end waits until the leader of a process group has exited, then kills the rest. The leader is
// not reaped yet, so its number is not reused and the group can be killed safely.
func end(ctx context.Context, leader int) error {
	kill := func() error { return unix.Kill(-leader, unix.SIGKILL) }
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = kill(); close(killed) })
	var waited error = unix.EINTR
	for errors.Is(waited, unix.EINTR) {
		waited = unix.Waitid(unix.P_PID, leader, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	if !stop() {
		<-killed
	}
	if err := kill(); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// tail keeps the end of what is written to it. It is not safe for concurrent use.
type tail struct{ last []byte }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > OutputBytes {
		p = p[n-OutputBytes:]
	}
	t.last = append(t.last, p...)
	if over := len(t.last) - OutputBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return n, nil
}

// String returns the text without control characters other than tabs and line ends.
func (t *tail) String() string {
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f {
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(t.last), "?"))
	return strings.TrimSpace(text)
}

// quote adds the output to an error.
func (t *tail) quote(err error) error {
	if output := t.String(); output != "" {
		return fmt.Errorf("%w; output: %s", err, output)
	}
	return err
}
