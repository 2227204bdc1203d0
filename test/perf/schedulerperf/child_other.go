// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import "syscall"

// childAttributes puts a child into its own process group. This system has no
// parent-death signal: the child survives if this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// killGroup kills a child and the etcd that it has started.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
