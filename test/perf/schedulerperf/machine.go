// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"stowage.dev/stowage/test/perf/result"
)

// source describes this machine, these sources and this command.
func source(ctx context.Context) (result.Source, error) {
	s := result.Source{
		Time:    time.Now().UTC(),
		Command: strings.Join(append([]string{"go run ./" + folder}, os.Args[1:]...), " "),
		Go:      runtime.Version(),
		CPUs:    runtime.NumCPU(),
		System:  runtime.GOOS + "/" + runtime.GOARCH,
	}
	var err error
	if s.Kubernetes, err = listModule(ctx, "{{.Version}}", kubernetesModule); err != nil {
		return s, err
	}
	root, err := moduleDir(ctx, module)
	if err != nil {
		return s, err
	}
	describe := exec.CommandContext(ctx, "git", "-C", root, "describe", "--tags", "--always", "--dirty", "--match=v*")
	out, err := describe.Output()
	if err != nil {
		return s, fmt.Errorf("%s: %w", describe, err)
	}
	s.Version = strings.TrimSpace(string(out))
	err = describeMachine(&s)
	return s, err
}

// describeMachine reads /proc; what a system without it does not tell stays
// empty.
func describeMachine(s *result.Source) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return err
	}
	cpus, err := proc.CPUInfo()
	if err != nil {
		return err
	}
	if len(cpus) > 0 {
		s.CPU = cpus[0].ModelName
	}
	memory, err := proc.Meminfo()
	if err != nil {
		return err
	}
	if memory.MemTotalBytes != nil {
		s.Memory = int64(*memory.MemTotalBytes)
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	s.System = "Linux " + strings.TrimSpace(string(release))
	return nil
}
