// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// execEtcd turns this process into etcd. scheduler_perf starts an etcd
// for each workload, and leaves it behind when it is killed itself; so it
// starts this process, which first sets the kernel's parent-death signal. Data is
// not synced to disk: etcd's disk is not measured.
func execEtcd() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if os.Getppid() == 1 {
		return errors.New("start etcd: the benchmark has ended meanwhile")
	}
	path := os.Getenv(etcdEnv)
	return &os.PathError{Op: "execve", Path: path, Err: syscall.Exec(path, slices.Concat([]string{path}, os.Args[1:], []string{"--unsafe-no-fsync"}), os.Environ())}
}
