// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claimbinder_test tests claims that are bound without a pod, beside a real PV controller
// and the scheduler. stowage-controller runs as a separate process, with the rights that
// manifests/controller grants.
package claimbinder_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/rights"
	"stowage.dev/stowage/test/provisioners"
)

// manifests is the folder of the controller's manifests.
const manifests = "../../../manifests/controller"

const (
	// binds enables the binding of claims.
	binds = "claimBinder: {bindNow: {enabled: true, annotations: [{key: example.com/now, value: \"true\"}]}}\n"
	// settings are those of a controller that does not wait for the lease of a killed one.
	settings = binds + "clientConnection: {qps: 1000, burst: 2000}\nleaderElection: {leaderElect: false}\n"
)

// binary is the controller's.
var binary string

// audit ensures that the manifest grants nothing that no test has the controller use.
var audit = rights.Audit{
	User: fixture.ControllerAccount, Files: []string{filepath.Join(manifests, "bind-now.yaml")},
	// Where the PV controller does not set the phase in time; unit tests of the binder cover it.
	Rare: []string{`update persistentvolumes/status (API group "")`},
}

func TestMain(m *testing.M) {
	os.Exit(audit.Exit(fixture.MainOn(m, audit.Config, begin)))
}

// begin starts the controller that most tests share.
func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	stop = func() {}
	if binary, err = cluster.BuildCommand(ctx, cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/controller"); err != nil {
		return stop, err
	}
	if err := install(ctx, c); err != nil {
		return stop, err
	}
	process, err := fixture.StartController(c, binary, "controller", settings)
	if err != nil {
		return stop, err
	}
	return func() {
		if err := process.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}, nil
}

// install applies what the controller needs, and grants it what manifests grant it.
func install(ctx context.Context, c *cluster.Cluster) error {
	if err := provisioners.Apply(ctx, c); err != nil {
		return err
	}
	return c.CreateFiles(ctx, filepath.Join(manifests, "base/rbac.yaml"), filepath.Join(manifests, "bind-now.yaml"))
}
