// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Controller measures the CPU and memory of stowage-controller on a large cluster, when idle
// and while nodes are lost:
//
//	go run ./test/perf/controller -nodes 1000 -lost 20
//
// It runs an etcd, a kube-apiserver and the controller, from the top of the repository. Nodes,
// reports, volumes, claims, StatefulSets and pods are objects without controllers; the program
// acts as PersistentVolume controller as far as required.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/perf/benchfmt"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
)

// settings release the claims of all lost volumes at once.
const settings = `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
healthAddress: "127.0.0.1:0"
nodeLoss: {policy: Release, delay: 1s, releasesPerMinute: 10000}
leaderElection: {leaderElect: false}
`

// resting is how long the idle controller is measured.
const resting = 30 * time.Second

func main() {
	parts.Benchmark{
		Name: "bench-controller", Only: "ONLY",
		Numbers: []parts.Number{
			{Name: "nodes", Usage: "nodes, of 10 volumes and 5 claims and pods each", Default: 1000},
			{Name: "lost", Usage: "nodes that are lost", Default: 20},
		},
		Parts: []parts.Part{{Name: "controller", Prefixes: []string{"Controller"}, Measure: measure}},
	}.Main()
}

func measure(ctx context.Context, r *parts.Run) (measured figures.Set, err error) {
	build := cluster.BuildOptions{Progress: os.Stderr}
	binaries, err := cluster.Build(ctx, build)
	if err != nil {
		return nil, err
	}
	binary, err := cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/controller")
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries: binaries, NoKwok: true, ControllerManager: cluster.ControllerManagerConfig{Disabled: true},
		// No controller would remove the finalizers of used claims and volumes.
		APIServer: cluster.APIServerConfig{DisableAdmission: []string{"ServiceAccount", "StorageObjectInUseProtection"}},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	s, err := watch(ctx, c)
	if err != nil {
		return nil, err
	}
	nodes, lost := r.Number("nodes"), r.Number("lost")
	parts.Progress("%d nodes with all they have", nodes)
	if err := s.fill(ctx, nodes); err != nil {
		return nil, err
	}
	process, err := start(c, binary)
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		name string
		do   func() error
	}{
		// Its caches are filled once it has handled the last node.
		{"start", func() error { return s.lose(ctx, nodes-1, 1) }},
		{"rest", func() error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(resting):
				return nil
			}
		}},
		{"loss", func() error { return s.lose(ctx, 0, lost) }},
	} {
		line, err := phase(process, p.name, p.do)
		if err != nil {
			return nil, errors.Join(err, process.Kill())
		}
		measured = append(measured, line)
	}
	return measured, process.Kill()
}

// start runs the controller.
func start(c *cluster.Cluster, binary string) (*cluster.Process, error) {
	config := filepath.Join(c.Folder(), "controller.yaml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	return c.StartCommand("controller", binary, []string{"--config=" + config, "--kubeconfig=" + c.Kubeconfig()}, nil)
}

// phase measures the controller's use of resources during do.
func phase(process *cluster.Process, name string, do func() error) (*benchfmt.Result, error) {
	parts.Progress("%s", name)
	before, err := source.Used(process)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(begin)
	after, err := source.Used(process)
	if err != nil {
		return nil, err
	}
	return figures.Line("Controller/phase="+name, 1, figures.Value{Value: took.Seconds(), Unit: "sec"}, figures.Value{Value: after.CPU - before.CPU, Unit: "cpu-sec"},
		figures.Value{Value: float64(after.RSS), Unit: "rss-B"}, figures.Value{Value: float64(after.Peak), Unit: "peak-B"}), nil
}
