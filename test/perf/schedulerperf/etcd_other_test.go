// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import (
	"os"
	"slices"
	"syscall"
)

// execEtcd turns this process into etcd. This system has no parent-death signal:
// etcd outlives a benchmark that is killed.
func execEtcd() error {
	path := os.Getenv(etcdEnv)
	return &os.PathError{Op: "execve", Path: path, Err: syscall.Exec(path, slices.Concat([]string{path}, os.Args[1:], []string{"--unsafe-no-fsync"}), os.Environ())}
}
