// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// childAttributes puts a child into its own process group, and has the kernel
// kill it if this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills a child and the etcd that it has started.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
