// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests_test tests the manifests and the Helm chart made of them on a real API
// server: every object passes strict validation, the chart renders the manifests, each of its
// values works, pods are admitted where they should be, an installation can be upgraded, and an
// uninstall removes it.
//
// Monitors and rules are of kinds of the Prometheus operator, whose definitions are installed;
// hack/monitoring tests these with Prometheus' own code.
package manifests_test

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/dynamic"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
)

// waitTimeout bounds a single wait on a machine with other load.
var waitTimeout = 3 * deadline.Wait()

// What TestMain makes for all tests.
var (
	shared *cluster.Cluster
	admin  dynamic.Interface
	tools  toolPaths
)

func TestMain(m *testing.M) { os.Exit(fixture.MainOn(m, config, begin)) }

// config is a cluster without nodes, whose only controller makes service accounts.
func config() cluster.Config {
	return cluster.Config{
		Binaries: fixture.DefaultConfig().Binaries, NoKwok: true,
		ControllerManager: cluster.ControllerManagerConfig{Controllers: []string{"serviceaccount-controller"}},
	}
}

func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	shared = c
	if tools, err = buildTools(ctx); err != nil {
		return nil, err
	}
	admin, err = dynamic.NewForConfig(c.RESTConfig())
	return func() {}, err
}
