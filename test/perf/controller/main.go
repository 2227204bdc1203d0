// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Controller measures the CPU and memory of stowage-controller on a large cluster, when idle
// and while nodes are lost:
//
//	go run ./test/perf/controller -nodes 1000 -lost 20
//
// It runs an etcd, a kube-apiserver and the controller. Nodes, reports, volumes, claims,
// StatefulSets and pods are objects without controllers; the program acts as
// PersistentVolume controller as far as required.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/test/cluster"
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
	nodes := flag.Int("nodes", 1000, "nodes, of 10 volumes and 5 claims and pods each")
	lost := flag.Int("lost", 20, "nodes that are lost")
	flag.Parse()
	klog.SetLogger(logr.Discard()) // clients complain when the cluster ends
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, *nodes, *lost)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, nodes, lost int) (err error) {
	build := cluster.BuildOptions{Progress: os.Stderr}
	binaries, err := cluster.Build(ctx, build)
	if err != nil {
		return err
	}
	binary, err := cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/controller")
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries: binaries, NoKwok: true, ControllerManager: cluster.ControllerManagerConfig{Disabled: true},
		// No controller would remove the finalizers of used claims and volumes.
		APIServer: cluster.APIServerConfig{DisableAdmission: []string{"ServiceAccount", "StorageObjectInUseProtection"}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	w, err := newWorld(ctx, c)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := w.fill(ctx, nodes); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "  made %d nodes with all they have in %s\n", nodes, time.Since(begin).Round(time.Second))
	process, err := start(c, binary)
	if err != nil {
		return err
	}
	err = phases(ctx, w, process, nodes, lost)
	return errors.Join(err, process.Kill())
}

// phases measures one after the other.
func phases(ctx context.Context, w *world, process *cluster.Process, nodes, lost int) error {
	// Its caches are filled once it has handled the last node.
	if err := phase(process, "start, and 1 node is lost", func() error { return w.lose(ctx, nodes-1, 1) }); err != nil {
		return err
	}
	err := phase(process, "at rest", func() error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(resting):
			return nil
		}
	})
	if err != nil {
		return err
	}
	return phase(process, fmt.Sprintf("%d nodes are lost", lost), func() error { return w.lose(ctx, 0, lost) })
}

// start runs the controller.
func start(c *cluster.Cluster, binary string) (*cluster.Process, error) {
	config := filepath.Join(c.Folder(), "controller.yaml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	return c.StartCommand("controller", binary, []string{"--config=" + config, "--kubeconfig=" + c.Kubeconfig()}, nil)
}

// phase prints the controller's use of resources during do.
func phase(process *cluster.Process, name string, do func() error) error {
	before, err := source.Used(process)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(begin)
	after, err := source.Used(process)
	if err != nil {
		return err
	}
	fmt.Printf("%-26s %6.1f s   CPU %6.2f s (%4.0f m)   memory %4d MiB, at most %4d MiB\n", name, took.Seconds(),
		after.CPU-before.CPU, (after.CPU-before.CPU)/took.Seconds()*1000, after.RSS>>20, after.Peak>>20)
	return nil
}
