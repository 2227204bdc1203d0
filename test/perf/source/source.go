// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source describes where figures come from: the machine, the versions and
// the command, as every published benchmark states them.
package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/result"
)

// Describe describes this machine, the sources around the working
// directory and the time. On a system without /proc some fields stay empty.
func Describe(ctx context.Context, command string) (result.Source, error) {
	s := result.Source{
		Time: time.Now().UTC().Truncate(time.Second), Command: command,
		Go: runtime.Version(), CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
	}
	var err error
	if s.Kubernetes, err = output(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"); err != nil {
		return s, err
	}
	if s.Version, err = version(ctx); err != nil {
		return s, err
	}
	if err := describeMachine(&s); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("describe the machine: %w", err)
	}
	return s, nil
}

// version is the commit, marked when what was measured is not what it contains.
// Changes of docs, where results are written, do not count.
func version(ctx context.Context) (string, error) {
	name, err := output(ctx, "git", "describe", "--tags", "--always", "--match=v*")
	if err != nil {
		return "", err
	}
	changes, err := output(ctx, "git", "status", "--porcelain", "--", ":(top)", ":(top,exclude)docs")
	if err != nil {
		return "", err
	}
	if changes != "" {
		name += "-dirty"
	}
	return name, nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func describeMachine(s *result.Source) error {
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

// Load is the machine's load average over the last minute, in tasks; 0 where it cannot be
// read.
func Load() float64 {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	average, err := proc.LoadAvg()
	if err != nil {
		return 0
	}
	return average.Load1
}

// Usage is the kernel's accounting of a process.
type Usage struct {
	CPU       float64 // seconds, user and system
	RSS, Peak int64   // resident set, now and at most, in bytes
}

// Used is what a process has used since it began.
func Used(p *cluster.Process) (u Usage, err error) {
	proc, err := procfs.NewProc(p.PID())
	if err == nil {
		stat, statErr := proc.Stat()
		status, statusErr := proc.NewStatus()
		u, err = Usage{CPU: stat.CPUTime(), RSS: int64(status.VmRSS), Peak: int64(status.VmHWM)}, errors.Join(statErr, statusErr)
	}
	if err != nil {
		return Usage{}, fmt.Errorf("read the resource usage of %s: %w", p.Name(), err)
	}
	return u, nil
}
