// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package realnode runs Kubernetes clusters with real nodes on one machine, as root: a control
// plane of package cluster with all controllers, RBAC and the Node authorizer, and nodes that
// run containerd, kubelet and kube-proxy. Pods are real, mount real volumes, and reach the API
// server as they do elsewhere.
//
//	binaries, err := realnode.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
//	...
//	c, err := realnode.Start(ctx, realnode.Config{Binaries: binaries, Images: []string{"bin/images/stowage-provisioner.tar"}})
//	...
//	defer c.Stop()
//	nodes, err := c.AddNodes(ctx,
//		realnode.NodeSpec{Name: "a", Disks: []realnode.Disk{{Kind: realnode.Ext4, Path: "/mnt/disks/fast/1", Size: 64 << 20}}},
//		realnode.NodeSpec{Name: "b"})
//	...
//	out, err := c.Kubectl(ctx, "get", "nodes")
//	err = nodes[0].Kill()     // a power cut
//	err = nodes[0].Start(ctx) // with its files and disks
//
// A node has its own PID, mount, network, UTS and IPC namespaces. Its root file system has the
// machine's programs, and its own /var, /mnt, /run, /tmp, /etc and so on: /var/lib/kubelet and
// /etc/fstab are the node's. It sees all devices of the machine.
//
// Everything ends with the process that called Start, however it ends, and leaves no
// mounts, loop devices, networks and control groups. See docs/design/real-nodes.md.
package realnode
