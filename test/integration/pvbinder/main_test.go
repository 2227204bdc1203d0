// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pvbinder_test runs stowage-controller instead of the PV controller, as a separate process
// with the rights that manifests/controller grants.
package pvbinder_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/rights"
)

// audit ensures that the manifest grants nothing that no test has the controller use.
var audit = rights.Audit{User: fixture.ControllerAccount, Files: []string{fixture.BinderManifest("pv-binder.yaml")}}

func TestMain(m *testing.M) {
	os.Exit(audit.Exit(fixture.MainOn(m, config, begin)))
}

// config is a cluster without the PV controller.
func config() cluster.Config {
	c := audit.Config()
	c.ControllerManager = c.ControllerManager.WithoutPVController()
	return c
}

// begin starts the controller that tests share.
func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	process, err := fixture.StartBinder(ctx, c)
	if err != nil {
		return nil, err
	}
	return func() {
		if err := process.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}, nil
}
