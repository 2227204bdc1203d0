// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cluster builds and runs a Kubernetes control plane with simulated
// nodes on this machine.
//
//	go run ./hack/cluster build          builds the binaries, once per version
//	go run ./hack/cluster build -real    and those of real nodes
//	go run ./hack/cluster build -cached  fails if a binary does not exist
//	go run ./hack/cluster up             runs a cluster until Ctrl-C
//	go run ./hack/cluster up -real=3     runs one with real nodes, as root
//
// "up -h" lists the flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/requirements"
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
	return errors.New("usage: cluster build [-real] [-cached] | cluster up [flags]; cluster up -h lists the flags")
}

func build(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cluster build", flag.ContinueOnError)
	nodes := flags.Bool("real", false, "build the programs of real nodes too")
	cached := flags.Bool("cached", false, "build nothing: fail if a binary does not exist")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o := cluster.BuildOptions{Progress: os.Stderr, Cached: *cached}
	if _, err := cluster.Build(ctx, o); err != nil || !*nodes {
		return err
	}
	_, err := cluster.BuildNode(ctx, o)
	return err
}

// startTimeout is long enough for a slow machine.
var startTimeout = 2 * deadline.Wait()

// options of "up", as given on the command line.
type options struct {
	nodes           int
	real            int
	images          string
	zones           string
	controllers     string
	scheduler       string
	schedulerConfig string
	noScheduler     bool
	keep            bool
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("cluster up", flag.ContinueOnError)
	flags.IntVar(&o.nodes, "nodes", 3, "number of simulated nodes")
	flags.IntVar(&o.real, "real", 0, "number of real nodes instead of simulated ones, each with a disk of 1 GiB at /mnt/disks/1; needs root, and runs all controllers")
	flags.StringVar(&o.images, "images", "", "comma-separated image archives that real nodes get")
	flags.StringVar(&o.zones, "zones", "", "comma-separated zones, given to the nodes in turn")
	flags.StringVar(&o.controllers, "controllers", "default",
		"controllers to run: default (what stateful workloads need), volume, all, none, or names as kube-controller-manager's --controllers takes them")
	flags.StringVar(&o.scheduler, "scheduler", "", "scheduler binary (default: the stock kube-scheduler)")
	flags.StringVar(&o.schedulerConfig, "scheduler-config", "", "file with a KubeSchedulerConfiguration")
	flags.BoolVar(&o.noScheduler, "no-scheduler", false, "run no scheduler")
	flags.BoolVar(&o.keep, "keep", false, "leave the cluster's folder with all logs in place")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.nodes < 0 {
		return o, fmt.Errorf("-nodes must not be negative, got %d", o.nodes)
	}
	if o.real < 0 {
		return o, fmt.Errorf("-real must not be negative, got %d", o.real)
	}
	if o.images != "" && o.real == 0 {
		return o, errors.New("-images are for real nodes: set -real")
	}
	return o, nil
}

func (o options) controllerManager() cluster.ControllerManagerConfig {
	switch o.controllers {
	case "default":
		return cluster.ControllerManagerConfig{}
	case "volume":
		return cluster.ControllerManagerConfig{Controllers: cluster.VolumeControllers}
	case "all":
		return cluster.ControllerManagerConfig{Controllers: cluster.AllControllers}
	case "none":
		return cluster.ControllerManagerConfig{Disabled: true}
	default:
		return cluster.ControllerManagerConfig{Controllers: strings.Split(o.controllers, ",")}
	}
}

func up(ctx context.Context, o options) error {
	if o.real > 0 {
		return upReal(ctx, o)
	}
	binaries, err := cluster.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := cluster.Start(starting, cluster.Config{Binaries: binaries, Keep: o.keep, ControllerManager: o.controllerManager()})
	if err != nil {
		return err
	}
	set := cluster.NodeSet{Count: o.nodes}
	if o.zones != "" {
		set.Zones = strings.Split(o.zones, ",")
	}
	if err = c.AddNodes(starting, set.Nodes()...); err == nil {
		err = startScheduler(starting, c, o)
	}
	if err == nil {
		err = wait(ctx, c)
	}
	return errors.Join(err, c.Stop())
}

// wait prints how to use the cluster and returns when ctx is done or the cluster fails.
func wait(ctx context.Context, c *cluster.Cluster) error {
	fmt.Printf("The cluster is up. Point kubectl at it with\n\n  export KUBECONFIG=%s\n\nLogs are in %s. Ctrl-C ends it.\n", c.Kubeconfig(), c.Folder())
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.Failed():
		return err
	}
}

func startScheduler(ctx context.Context, c *cluster.Cluster, o options) error {
	if o.noScheduler {
		return nil
	}
	so := cluster.SchedulerOptions{Binary: o.scheduler}
	if o.schedulerConfig != "" {
		data, err := os.ReadFile(o.schedulerConfig)
		if err != nil {
			return err
		}
		so.ConfigYAML = data
	}
	_, err := c.StartHealthyScheduler(ctx, so)
	return err
}

// diskSize of the disk that each real node has.
const diskSize = 1 << 30

// upReal is up with real nodes.
func upReal(ctx context.Context, o options) error {
	if err := requirements.Missing(requirements.Nodes); err != nil {
		return err
	}
	binaries, err := realnode.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		return err
	}
	config := realnode.Config{Binaries: binaries, NoScheduler: true}
	config.Cluster.Keep = o.keep
	if o.controllers != "default" {
		config.Cluster.ControllerManager = o.controllerManager()
	}
	if o.images != "" {
		config.Images = strings.Split(o.images, ",")
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := realnode.Start(starting, config)
	if err != nil {
		return err
	}
	if _, err = c.AddNodes(starting, o.realNodes()...); err == nil {
		err = startScheduler(starting, c.Cluster, o)
	}
	if err == nil {
		fmt.Printf("kubectl is %s\n\n", binaries.Node.Kubectl)
		err = wait(ctx, c.Cluster)
	}
	return errors.Join(err, c.Stop())
}

func (o options) realNodes() []realnode.NodeSpec {
	specs := make([]realnode.NodeSpec, o.real)
	zones := strings.Split(o.zones, ",")
	for i := range specs {
		specs[i] = realnode.NodeSpec{
			Name:  fmt.Sprintf("node-%d", i),
			Disks: []realnode.Disk{{Kind: realnode.Ext4, Path: "/mnt/disks/1", Size: diskSize}},
		}
		if zone := zones[i%len(zones)]; zone != "" {
			specs[i].Labels = map[string]string{"topology.kubernetes.io/zone": zone}
		}
	}
	return specs
}
