// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo schedules stateful pods by their volumes on a real control plane
// on this machine, prints what happens, and checks the outcome.
//
//	go run ./hack/demo          from the top of the repository, as "make demo" does
//	go run ./hack/demo -keep    leaves the cluster running until Ctrl-C
//	go run ./hack/demo -folders publishes plain folders, also as root
//
// It builds and starts etcd, kube-apiserver, kube-controller-manager, simulated
// nodes, the stock kube-scheduler and, as a second scheduler with the sample
// configuration and rights of manifests/scheduler/second, stowage-scheduler. Three
// nodes get stowage-provisioner and disks: as root mounted file systems
// and loop devices, otherwise plain folders. All of it ends with the command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	keep := flag.Bool("keep", os.Getenv("KEEP") != "", "leave the cluster running until Ctrl-C (also: KEEP=1)")
	folders := flag.Bool("folders", os.Getenv("FOLDERS") != "", "publish plain folders, also as root (also: FOLDERS=1)")
	flag.Parse()
	// A closed standard output must not end the demo before it has removed its disks.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *folders, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// run starts the cluster, runs all steps, checks the outcome and stops everything.
func run(ctx context.Context, folders, keep bool) (err error) {
	d, err := start(ctx, folders)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop(err != nil && ctx.Err() == nil)) }()
	for i, s := range steps {
		d.title(i+1, s.title)
		if s.text != "" {
			d.print("%s", s.text)
		}
		if err := s.run(ctx, d); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	if err := d.conclude(ctx); err != nil {
		return err
	}
	d.print("")
	d.print("All as expected, in %s from starting etcd.", time.Since(d.begin).Round(100*time.Millisecond))
	if keep {
		return d.keep(ctx)
	}
	return nil
}
