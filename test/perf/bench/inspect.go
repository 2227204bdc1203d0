// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/perf/benchfmt"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
)

// InspectWorkload is the cluster of Inspect: six volumes of each node are bound to the claims of running pods.
func InspectWorkload() Workload {
	return Workload{Name: "inspect", Title: "commands of kubectl-stowage", Nodes: 5000, VolumesPerNode: 10}
}

// command is a command that is measured.
type command struct {
	name string
	args []string
	// want is at the beginning of what it prints.
	want string
}

func (c command) String() string { return c.name }

// kubectl is the command that the others are compared with: the speed of a machine that other processes use changes.
const kubectl = "kubectl_get_pods,pv_-A"

// Inspect measures commands of kubectl-stowage, each in a process of its own, and kubectl, which reads the same pods and
// volumes, on a cluster that it starts and ends.
func Inspect(ctx context.Context, c Config, rounds int) (measured figures.Set, err error) {
	build := cluster.BuildOptions{Progress: os.Stderr}
	tools, err := cluster.BuildNode(ctx, build)
	if err != nil {
		return nil, err
	}
	plugin, err := cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/kubectl-stowage")
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.fillInspected(ctx); err != nil {
		return nil, err
	}
	unfit := fmt.Sprintf("none of %d nodes fits", s.workload.Nodes)
	wide := command{"map_-o_wide", []string{plugin, "map", "-o", "wide"}, "IDENTITY"}
	commands := []command{
		{kubectl, []string{tools.Kubectl, "get", "pods,pv", "-A"}, waitingPod},
		{"why_pod", []string{plugin, "why", "pod", waitingPod, "-n", namespace}, unfit},
		{"why_pod,_nothing_free", []string{plugin, "why", "pod", waitingFull, "-n", namespace}, unfit},
		{"map", []string{plugin, "map"}, fmt.Sprintf("on %d nodes", s.workload.Nodes)},
		{"map_--by_node", []string{plugin, "map", "--by", "node"}, fmt.Sprintf("on %d nodes", s.workload.Nodes)},
		wide,
		{"fit_--replicas_100", []string{plugin, "fit", "--claims", claimSize + ":" + class, "--replicas", "100"}, "100"},
	}
	// The first list of LocalDiskReports after the start of an API server waits until it has all of them in memory.
	if _, err := s.measureCommand(ctx, wide); err != nil {
		return nil, err
	}
	return parts.Rounds(rounds, commands, func(_ int, command command) (*benchfmt.Result, error) {
		return s.measureCommand(ctx, command)
	})
}

// measureCommand runs a command once.
func (s *setup) measureCommand(ctx context.Context, c command) (*benchfmt.Result, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Env = []string{"HOME=" + s.cluster.Folder(), "KUBECONFIG=" + s.cluster.Kubeconfig(), "COLUMNS=160"}
	out, messages := &counted{want: c.want}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, messages
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(c.args[0]), err, messages)
	}
	took := time.Since(begin)
	if !out.found {
		return nil, fmt.Errorf("%s does not print %q, but: %s", c.name, c.want, out.begin)
	}
	peak, err := peakOf(cmd.ProcessState)
	if err != nil {
		return nil, err
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	parts.Progress("%.3gs, CPU %.3gs, %.0f MiB", took.Seconds(), cpu.Seconds(), peak/(1<<20))
	return figures.Line("Inspect/command="+c.name, 1, figures.Value{Value: took.Seconds(), Unit: "sec"}, figures.Value{Value: cpu.Seconds(), Unit: "cpu-sec"},
		figures.Value{Value: figures.Measured(peak), Unit: "peak-B"}, figures.Value{Value: float64(out.bytes), Unit: "printed-B"}), nil
}

// peakOf is the largest resident set of a process that has ended, in bytes. The kernel counts that of this process, which
// started it: 0 if that is no smaller.
func peakOf(ended *os.ProcessState) (float64, error) {
	self, err := procfs.Self()
	if err != nil {
		return 0, err
	}
	status, err := self.NewStatus()
	if err != nil {
		return 0, err
	}
	peak := ended.SysUsage().(*syscall.Rusage).Maxrss * 1024
	if peak <= int64(status.VmHWM) {
		return 0, nil
	}
	return float64(peak), nil
}

// counted counts what is printed, and looks for a text in its beginning.
type counted struct {
	want  string
	begin []byte
	found bool
	bytes int
}

// mostBegin bounds the bytes that a text is looked for in.
const mostBegin = 16 << 20

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	if !c.found && c.bytes < mostBegin {
		c.begin = append(c.begin, p...)
		if c.found = strings.Contains(string(c.begin), c.want); c.found {
			c.begin = nil
		}
	}
	return len(p), nil
}
