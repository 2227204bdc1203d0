// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy_test tests the provisioner's manifests on a real API
// server: what the provisioner of one node may write, and that its token
// gives no access to the volumes, the report and the Node of another.
//
// Provisioners have the tokens that kubelet would give them, bound to a pod on their
// node, and the rights of the manifests. Where RBAC alone already refuses a
// request, the test repeats it as a user of the same name and node with all
// rights, so that the policy answers.
package policy_test

import (
	"context"
	"os"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
)

// waitTimeout bounds a single wait on a machine with other load.
var waitTimeout = deadline.Wait()

// shared is what TestMain makes for all tests.
var shared *env

func TestMain(m *testing.M) { os.Exit(fixture.MainOn(m, config, begin)) }

// config is a cluster without nodes. Its only controller reports the types of the policies'
// expressions.
func config() cluster.Config {
	return cluster.Config{
		Binaries: fixture.DefaultConfig().Binaries, NoKwok: true,
		ControllerManager: cluster.ControllerManagerConfig{Controllers: []string{"validatingadmissionpolicy-status-controller"}},
	}
}

func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	shared, err = newEnv(ctx, c)
	return func() { shared.close() }, err
}
