// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo schedules stateful pods by their volumes on a real control plane
// on this machine, tells what happens, and checks that it did.
//
//	go run ./hack/demo          from the top of the repository, as "make demo" does
//	go run ./hack/demo -keep    leaves the cluster running until Ctrl-C
//	go run ./hack/demo -folders publishes plain folders, also as root
//	go run ./hack/demo -real    tells a shorter story on real nodes, as root
//
// It builds and starts etcd, kube-apiserver, kube-controller-manager, simulated
// nodes, the stock kube-scheduler and, as a second scheduler with the sample
// configuration and rights of manifests/scheduler/second, stowage-scheduler. Three
// nodes get an agent, stowage-provisioner, and disks: as root mounted file systems
// and loop devices, otherwise plain folders. All of it ends with the command.
//
// With -real, nodes run containerd and kubelet, Stowage is installed by its manifests, with the
// images that "make images" makes, and pods write to disks.
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
	realNodes := flag.Bool("real", os.Getenv("REAL") != "", "real nodes, with containerd and kubelet; as root (also: REAL=1)")
	flag.Parse()
	p := simulated(*folders)
	if *realNodes {
		p = onRealNodes
	}
	// Who stops reading ends neither the demo nor what it has to undo.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, p, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// play is a story, where it happens, and how it has to end.
type play struct {
	start    func(context.Context) (*demo, error)
	story    []step
	conclude func(context.Context, *demo) error
}

// simulated is the story on simulated nodes.
func simulated(folders bool) play {
	return play{
		start:    func(ctx context.Context) (*demo, error) { return start(ctx, folders) },
		story:    story,
		conclude: func(ctx context.Context, d *demo) error { return d.conclude(ctx) },
	}
}

// run starts everything, tells the story, checks its outcome and ends
// everything.
func run(ctx context.Context, p play, keep bool) (err error) {
	d, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop(err != nil && ctx.Err() == nil)) }()
	for i, s := range p.story {
		d.title(i+1, s.title)
		if err := s.tell(ctx, d); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	if err := p.conclude(ctx, d); err != nil {
		return err
	}
	d.say("")
	d.say("All as expected, in %s from starting etcd.", time.Since(d.begin).Round(100*time.Millisecond))
	if keep {
		return d.keep(ctx)
	}
	return nil
}
