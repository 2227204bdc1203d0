// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source describes where figures come from: the machine, the versions and
// the command, as every published benchmark states them.
package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
)

// Describe returns the configuration lines of results measured now by this command, on this
// machine and with the sources around the working directory.
func Describe(ctx context.Context, command string) ([]benchfmt.Config, error) {
	kubernetes, err := Output(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	commit, err := version(ctx)
	if err != nil {
		return nil, err
	}
	machine, err := describeMachine()
	if err != nil {
		return nil, fmt.Errorf("describe the machine: %w", err)
	}
	return append([]benchfmt.Config{
		figures.Key("measured", time.Now().UTC().Format(time.RFC3339)), figures.Key("command", command),
		figures.Key("commit", commit), figures.Key("kubernetes", kubernetes), figures.Key("go", runtime.Version()),
		figures.Key("cpus", strconv.Itoa(runtime.NumCPU())),
	}, machine...), nil
}

// version is the commit, marked when what was measured is not what it contains.
// Changes of docs, where results are written, do not count.
func version(ctx context.Context) (string, error) {
	name, err := Output(ctx, "git", "describe", "--tags", "--always", "--match=v*")
	if err != nil {
		return "", err
	}
	changes, err := Output(ctx, "git", "status", "--porcelain", "--", ":(top)", ":(top,exclude)docs")
	if err != nil {
		return "", err
	}
	if changes != "" {
		name += "-dirty"
	}
	return name, nil
}

// Output runs a program and returns its output.
func Output(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// describeMachine includes the load average over the last minute: much more than 0 means that
// other work slowed the figures.
func describeMachine() ([]benchfmt.Config, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	cpus, cpuErr := proc.CPUInfo()
	memory, memoryErr := proc.Meminfo()
	load, loadErr := proc.LoadAvg()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err := errors.Join(cpuErr, memoryErr, loadErr, err); err != nil {
		return nil, err
	}
	config := []benchfmt.Config{
		figures.Key("kernel", "Linux "+strings.TrimSpace(string(release))), figures.Key("load", fmt.Sprintf("%.1f", load.Load1)),
	}
	if len(cpus) > 0 {
		config = append(config, figures.Key("cpu", cpus[0].ModelName))
	}
	if memory.MemTotalBytes != nil {
		config = append(config, figures.Key("memory", fmt.Sprintf("%.1f GiB", float64(*memory.MemTotalBytes)/(1<<30))))
	}
	return config, nil
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
		cpu, cpuErr := cpuTime(p.PID())
		status, statusErr := proc.NewStatus()
		u, err = Usage{CPU: cpu.Seconds(), RSS: int64(status.VmRSS), Peak: int64(status.VmHWM)}, errors.Join(cpuErr, statusErr)
	}
	if err != nil {
		return Usage{}, fmt.Errorf("read the resource usage of %s: %w", p.Name(), err)
	}
	return u, nil
}

// cpuTime reads the clock of a process (clock_getcpuclockid). /proc/PID/stat counts hundredths of a
// second, which short runs do not reach.
func cpuTime(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED
	var used unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|scheduler), &used)
	return time.Duration(used.Nano()), err
}

// During is what a process uses while do runs, and how many seconds that takes. RSS and Peak are
// those of the end.
func During(p *cluster.Process, do func() error) (u Usage, seconds float64, err error) {
	before, err := Used(p)
	if err != nil {
		return u, 0, err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return u, 0, err
	}
	seconds = time.Since(begin).Seconds()
	u, err = Used(p)
	u.CPU -= before.CPU
	return u, seconds, err
}

// Thread is the CPU time of the calling thread, to which its goroutine must be locked. Other load on
// the machine hardly changes it. Reading it takes about half a microsecond.
func Thread() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // the clock exists since Linux 2.6
	}
	return time.Duration(now.Nano())
}

// Metrics calls do with each metric of a family that a process has, and the metric's labels.
func Metrics(ctx context.Context, p *cluster.Process, family string, do func(*dto.Metric, map[string]string)) error {
	text, err := p.Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read the metrics of %s: %w", p.Name(), err)
	}
	for _, m := range families[family].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		do(m, labels)
	}
	return nil
}
