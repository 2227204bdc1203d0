// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pvbinder_test runs stowage-controller instead of the PV controller, as a separate process
// with the rights that manifests/controller grants.
package pvbinder_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/rights"
	"stowage.dev/stowage/test/provisioners"
)

// account is who the controller is.
const account = "system:serviceaccount:stowage-system:stowage-controller"

// binary is the controller's.
var binary string

// audit ensures that the manifest grants nothing that no test has the controller use.
var audit = rights.Audit{User: account, Files: []string{manifest("pv-binder.yaml")}}

func manifest(name string) string { return filepath.Join("../../../manifests/controller", name) }

func TestMain(m *testing.M) {
	os.Exit(audit.Exit(fixture.MainOn(m, config, begin)))
}

// pvController is the name of the PV controller.
const pvController = "persistentvolume-binder-controller"

// config is a cluster without the PV controller.
func config() cluster.Config {
	c := audit.Config()
	c.ControllerManager.Controllers = slices.DeleteFunc(slices.Clone(cluster.DefaultControllers), func(name string) bool { return name == pvController })
	return c
}

// begin starts the controller that tests share.
func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	if binary, err = cluster.BuildCommand(ctx, cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/controller"); err != nil {
		return nil, err
	}
	process, err := start(ctx, c)
	if err != nil {
		return nil, err
	}
	return func() {
		if err := process.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}, nil
}

// settings are without leader election: tests would wait for the lease of a killed controller.
const settings = `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
healthAddress: ""
claimBinder: {inPlace: {enabled: true}}
clientConnection: {qps: 1000, burst: 2000}
leaderElection: {leaderElect: false}
`

// start grants a controller its rights and runs it.
func start(ctx context.Context, c *cluster.Cluster) (*cluster.Process, error) {
	if err := provisioners.Apply(ctx, c); err != nil { // with the kinds that the controller reads
		return nil, err
	}
	if err := c.CreateFiles(ctx, manifest("base/rbac.yaml"), manifest("pv-binder.yaml")); err != nil {
		return nil, err
	}
	kubeconfig, err := c.KubeconfigFor(account, "system:serviceaccounts", "system:serviceaccounts:stowage-system")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.Folder(), "controller.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	return c.StartCommand("controller", binary, []string{"--config=" + file, "--kubeconfig=" + kubeconfig, "--v=4"}, nil)
}
