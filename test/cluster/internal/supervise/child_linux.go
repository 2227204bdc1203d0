// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts a child into its own process group, out of reach of the
// terminal's Ctrl-C, and has the kernel kill it if the supervisor is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits for a child's end and has its whole process group end with it. The
// group is killed before the child is reaped, while its id cannot be another's.
func reap(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.Kill(-pid, unix.SIGKILL) // fails when nobody is left
	_ = cmd.Wait()                    // what it says is in ProcessState
}
