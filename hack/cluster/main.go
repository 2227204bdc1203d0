// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cluster builds and runs a Kubernetes control plane with simulated
// nodes on this machine.
//
//	go run ./hack/cluster build          builds the binaries, once per version
//	go run ./hack/cluster build -real    and those of real nodes
//	go run ./hack/cluster up             runs a cluster until Ctrl-C
//	go run ./hack/cluster up -real=3     runs one with real nodes, as root
//
// "up -h" lists what can be chosen.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"stowage.dev/stowage/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "build" {
		return build(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "up" {
		o, err := parse(args[1:])
		if err != nil {
			return err
		}
		return up(ctx, o)
	}
	return errors.New("usage: cluster build [-real] | cluster up [flags]; cluster up -h lists the flags")
}

func build(ctx context.Context, args []string) error {
	nodes := len(args) == 1 && args[0] == "-real"
	if len(args) > 0 && !nodes {
		return errors.New("usage: cluster build [-real]")
	}
	o := cluster.BuildOptions{Progress: os.Stderr}
	if _, err := cluster.Build(ctx, o); err != nil || !nodes {
		return err
	}
	_, err := cluster.BuildNode(ctx, o)
	return err
}
