// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeloss_test deletes nodes, with their volumes, under StatefulSets whose
// controllers are real, and runs stowage-controller as a separate process, with the
// rights that manifests/controller grants.
package nodeloss_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
	"stowage.dev/stowage/test/integration/rights"
)

// manifests is the folder of the shipped manifests.
const manifests = "../../../manifests/controller/base"

// account is who the controller is.
const account = fixture.ControllerAccount

// binary is the controller's.
var binary string

// audit ensures that the manifests grant nothing that no test has the controller use.
var audit = rights.Audit{
	User: account, Files: []string{filepath.Join(manifests, "rbac.yaml")},
	// client-go patches an event that repeats while the resource versions of its objects stay the
	// same, which depends on what else writes them.
	Rare: []string{`patch events (API group "events.k8s.io")`},
}

func TestMain(m *testing.M) {
	os.Exit(audit.Exit(fixture.MainOn(m, audit.Config, node.Install, begin)))
}

// shared runs for all tests of the package's cluster; tests configure it by
// annotations.
const sharedSettings = "nodeLoss: {delay: 2s, releasesPerMinute: 10000, outOfService: Lost, recreatingOwners: [LocalDiskReport.stowage.dev]}\nleaderElection: {leaderElect: false}\n"

// begin starts the controller that most tests share.
func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	if binary, err = cluster.BuildCommand(ctx, cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/controller"); err != nil {
		return nil, err
	}
	if err := grant(ctx, c); err != nil {
		return nil, err
	}
	process, err := start(c, "controller", sharedSettings)
	if err != nil {
		return nil, err
	}
	return func() {
		if err := process.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}, nil
}

// grant grants the controller what manifests grant it.
func grant(ctx context.Context, c *cluster.Cluster) error { return c.CreateFiles(ctx, audit.Files...) }

// start runs a controller with these settings.
func start(c *cluster.Cluster, name, settings string) (*cluster.Process, error) {
	return fixture.StartController(c, binary, name, settings)
}
