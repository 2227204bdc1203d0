// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts a child into its own process group, which the terminal's Ctrl-C does not
// reach, and makes the kernel kill it when this process is killed. A child beside another
// process needs no parent-death signal: it ends with the first process of its PID namespace.
// (Nor could it have one: the os/exec package takes a parent of another namespace for one
// that has ended.)
func childAttributes(spec Spec) (*syscall.SysProcAttr, error) {
	a := &syscall.SysProcAttr{Setpgid: true, Cloneflags: spec.Namespaces}
	if spec.Beside == 0 {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a, nil
}

// beside has start fork into the PID namespace of a process, 0 for this one's. The
// calling goroutine is locked to its thread, which alone is concerned.
func beside(pid int, start func() error) error {
	if pid == 0 {
		return start()
	}
	home, err := os.Open("/proc/self/ns/pid")
	if err != nil {
		return err
	}
	defer home.Close()
	other, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return err
	}
	defer other.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("enter the PID namespace of process %d: %w", pid, err)
	}
	err = start()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWPID); back != nil {
		err = errors.Join(err, fmt.Errorf("return to the own PID namespace: %w", back))
	}
	return err
}

// reap waits for a child's end and has its whole process group end with it. The
// group is killed before the child is reaped, while its id cannot be another's.
func reap(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.Kill(-pid, unix.SIGKILL) // fails if the group is empty
	_ = cmd.Wait()                    // the result is in ProcessState
}
