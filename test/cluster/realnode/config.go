// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/requirements"
)

// Config configures Start. The zero value of all fields but Binaries is a cluster as
// administrators install it: all controllers, RBAC, the Node authorizer and the stock scheduler.
type Config struct {
	// Binaries to run, as Build returns them.
	Binaries Binaries
	// Cluster configures the control plane. Binaries, Address, NoKwok and, unless they are
	// set, the controllers are filled in.
	Cluster cluster.Config
	// Images are archives (docker save's or the OCI's format) that every node has.
	Images []string
	// GracePeriod is how long the heartbeats of a node may be missing before it is not Ready; 0:
	// 16 seconds, a third of the default of Kubernetes.
	GracePeriod time.Duration
	// NoScheduler leaves kube-scheduler out; Cluster.StartScheduler starts another one.
	NoScheduler bool
}

// Binaries are what clusters of real nodes run.
type Binaries struct {
	Cluster cluster.Binaries
	Node    cluster.NodeBinaries
	// Init is process 1 of nodes, and that of pods.
	Init string
}

// Build builds all binaries, unless they exist already; see cluster.Build.
func Build(ctx context.Context, o cluster.BuildOptions) (b Binaries, err error) {
	if b.Cluster, err = cluster.Build(ctx, o); err != nil {
		return Binaries{}, err
	}
	if b.Node, err = cluster.BuildNode(ctx, o); err != nil {
		return Binaries{}, err
	}
	// Linked statically: the image of pods has no libraries.
	b.Init, err = cluster.BuildCommand(ctx, o, "stowage.dev/stowage/test/cluster/realnode/nodeinit", "-tags=netgo,osusergo")
	return b, err
}

// complete fills in defaults and reports what cannot work.
func (c Config) complete() (Config, error) {
	if err := requirements.Missing(requirements.Nodes); err != nil {
		return c, err
	}
	if c.Binaries.Init == "" || c.Binaries.Node.Kubelet == "" {
		return c, errors.New("Config.Binaries is not set: use what Build returns")
	}
	c.GracePeriod = cmp.Or(c.GracePeriod, 16*time.Second)
	if c.GracePeriod < 4*time.Second {
		return c, fmt.Errorf("Config.GracePeriod must be at least 4s, got %s", c.GracePeriod)
	}
	c.Cluster.Binaries = c.Binaries.Cluster
	c.Cluster.NoKwok = true
	m := &c.Cluster.ControllerManager
	if m.Controllers == nil {
		m.Controllers = cluster.AllControllers
	}
	m.ExtraArgs = append([]string{"--node-monitor-period=1s", "--node-monitor-grace-period=" + c.GracePeriod.String()}, m.ExtraArgs...)
	c.Cluster.APIServer.ExtraArgs = append([]string{"--enable-admission-plugins=NodeRestriction"}, c.Cluster.APIServer.ExtraArgs...)
	return c, nil
}
