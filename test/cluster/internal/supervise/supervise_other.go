// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package supervise

import (
	"errors"
	"os/exec"
	"syscall"
)

// childAttributes puts a child into its own process group, which the terminal's Ctrl-C does not
// reach. This system has no parent-death signal: children survive if
// the supervisor process is killed too.
func childAttributes(spec Spec) (*syscall.SysProcAttr, error) {
	if spec.Namespaces != 0 {
		return nil, errors.New("namespaces are Linux's")
	}
	return &syscall.SysProcAttr{Setpgid: true}, nil
}

// beside starts a process beside no other.
func beside(pid int, start func() error) error {
	if pid != 0 {
		return errors.New("namespaces are Linux's")
	}
	return start()
}

// reap waits for a child's end and has its whole process group end with it.
func reap(cmd *exec.Cmd) {
	_ = cmd.Wait()                                      // the result is in ProcessState
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if the group is empty
}
