// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/requirements"
)

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
		fmt.Printf("kubectl is %s\n\n", c.KubectlPath())
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
