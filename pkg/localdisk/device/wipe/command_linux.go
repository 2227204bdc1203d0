// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// outputDelay is how long a command's output is waited for after it has ended and
// its process group was killed: a process that left the group may hold it open.
const outputDelay = 5 * time.Second

// command runs the method's command.
func (r *run) command(ctx context.Context) error {
	if err := executable(r.Method.Name); err != nil {
		return err
	}
	if err := r.tell(disk.Progress{}); err != nil {
		return err
	}
	var out tail
	cmd := exec.Command(r.Method.Name, r.Method.Args...)
	cmd.Env = []string{"LOCAL_PV_BLKDEVICE=" + r.Device, "PATH=" + toolPath}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := wait(ctx, cmd); err != nil {
		return quote(err, &out)
	}
	return nil
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return disk.Problemf(disk.CleanerNotAllowed, "the provisioner's image has no command %s", path)
	case err != nil:
		return fmt.Errorf("find command: %w", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return disk.Problemf(disk.CleanerNotAllowed, "%s cannot be executed", path)
	default:
		return nil
	}
}

// wait runs a command in its own process group, which is killed when the context ends; what
// remains of it is killed when its leader ends. The caller's goroutine is locked to its
// thread.
func wait(ctx context.Context, cmd *exec.Cmd) error {
	cmd.Dir = "/"
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	pid := cmd.Process.Pid
	kill := func() { _ = unix.Kill(-pid, unix.SIGKILL) }
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { kill(); close(killed) })
	// The leader's number is not reused before it is reaped, so the group can be killed safely.
	var waited error = unix.EINTR
	for errors.Is(waited, unix.EINTR) {
		waited = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	if !stop() {
		<-killed
	}
	kill()
	err := cmd.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}

// quote adds the end of the command's output to an error.
func quote(err error, out *tail) error {
	if said := out.String(); said != "" {
		return fmt.Errorf("%w; output: %s", err, said)
	}
	return err
}
