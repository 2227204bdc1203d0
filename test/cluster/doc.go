// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes control plane on one machine: etcd,
// kube-apiserver, kube-controller-manager, nodes simulated by kwok and any
// number of schedulers, for the demo, the integration tests and the benchmarks.
//
//	binaries, err := cluster.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
//	...
//	c, err := cluster.Start(ctx, cluster.Config{Binaries: binaries})
//	...
//	defer c.Stop()
//	err = c.AddNodes(ctx, cluster.NodeSet{Count: 3}.Nodes()...)
//	...
//	scheduler, err := c.StartScheduler(ctx, cluster.SchedulerOptions{})
//
// Everything listens on 127.0.0.1 or on sockets in the cluster's own temporary
// folder, so any number of clusters run side by side. All processes and the
// folder are removed when the process that called Start ends, however it ends.
//
// Requests are authorized by RBAC; client certificates are issued for any user
// (see KubeconfigFor), servers show certificates of the cluster's own CA.
package cluster
