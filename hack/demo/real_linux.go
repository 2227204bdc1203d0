// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/requirements"
)

const (
	overlay = "manifests/overlays/default"
	images  = "bin/images"
	// realDisk is where each node has its disk: below the folder of the class that the
	// manifests have.
	realDisk = "/mnt/disks/disk1"
)

// realNodes are the nodes, each with a disk and in a zone of its own.
var realNodes = []realnode.NodeSpec{realNode("node-a", "north"), realNode("node-b", "south")}

func realNode(name, zone string) realnode.NodeSpec {
	return realnode.NodeSpec{
		Name: name, Labels: map[string]string{v1.LabelTopologyZone: zone},
		Disks: []realnode.Disk{{Kind: realnode.Ext4, Path: realDisk, Size: diskBytes}},
	}
}

// startReal builds and starts a control plane, and two nodes that run containerd and kubelet.
func startReal(ctx context.Context) (_ *demo, err error) {
	if err := requirements.Missing(requirements.Nodes); err != nil {
		return nil, err
	}
	archives, err := realImages(images)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "Building the control plane, kubelet, kube-proxy and kubectl, unless they are up to date ...")
	binaries, err := realnode.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "Starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and two nodes ...")
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	c, err := realnode.Start(ctx, realnode.Config{Binaries: binaries, Images: archives})
	if err != nil {
		return nil, err
	}
	d := &demo{
		cluster: c.Cluster, stopCluster: c.Stop, begin: begin, lives: &lives{}, out: os.Stdout, end: func() {},
		kubectl: c.Kubectl, hints: realHints(c.KubectlPath()),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop(false))
		}
	}()
	if d.objects, err = newObjects(c.RESTConfig()); err != nil {
		return nil, err
	}
	if _, err := c.AddNodes(ctx, realNodes...); err != nil {
		return nil, err
	}
	if _, err := d.startWatch(ctx); err != nil {
		return nil, err
	}
	d.watch.patience = realPatience
	return d, nil
}

// realImages are the archives of the images that nodes need.
func realImages(folder string) ([]string, error) {
	var archives, missing []string
	for _, name := range []string{"stowage-provisioner", "stowage-controller", "stowage-scheduler"} {
		file := filepath.Join(folder, name+".tar")
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, name)
		}
		archives = append(archives, file)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no images in %s: make images IMAGES=%q, as make demo REAL=1 does", folder, strings.Join(missing, " "))
	}
	return archives, nil
}

// realHints are commands for a cluster that is kept.
func realHints(kubectl string) string {
	return fmt.Sprintf(`  alias kubectl=%s
  kubectl get pods,pvc,pv -o wide
  kubectl exec tenant-0 -- ls -A /data
  kubectl -n stowage-system logs daemonset/stowage-provisioner
`, kubectl)
}
