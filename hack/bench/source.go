// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/perf/result"
)

// describe says where figures of this run come from.
func describe(ctx context.Context, command, apiServer string) (result.Source, error) {
	s := result.Source{Command: command, Go: runtime.Version(), CPUs: runtime.NumCPU()}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return s, err
	}
	cpus, err := fs.CPUInfo()
	if err != nil {
		return s, fmt.Errorf("read the kind of CPU: %w", err)
	}
	if len(cpus) > 0 {
		s.CPU = cpus[0].ModelName
	}
	memory, err := fs.Meminfo()
	if err != nil {
		return s, fmt.Errorf("read the size of memory: %w", err)
	}
	if memory.MemTotalBytes != nil {
		s.Memory = int64(*memory.MemTotalBytes)
	}
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return s, err
	}
	s.System = unix.ByteSliceToString(kernel.Sysname[:]) + " " + unix.ByteSliceToString(kernel.Release[:])
	if s.Version, err = version(ctx); err != nil {
		return s, err
	}
	kubernetes, err := exec.CommandContext(ctx, apiServer, "--version").Output()
	if err != nil {
		return s, fmt.Errorf("ask kube-apiserver for its version: %w", err)
	}
	s.Kubernetes = strings.TrimPrefix(strings.TrimSpace(string(kubernetes)), "Kubernetes ")
	return s, nil
}

// version is the commit, marked when what was measured is not what it contains.
// The benchmarks' own results do not count.
func version(ctx context.Context) (string, error) {
	described, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--match", "v*").Output()
	if err != nil {
		return "", fmt.Errorf("ask git for the version: %w", err)
	}
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ".", ":!docs").Output()
	if err != nil {
		return "", fmt.Errorf("ask git for changes: %w", err)
	}
	name := strings.TrimSpace(string(described))
	if len(changes) > 0 {
		name += "-dirty"
	}
	return name, nil
}
