// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover_test moves nodes with real disks from the reference provisioner
// (sig-storage-local-static-provisioner) to the provisioner and back, on a real API server
// and with the real PersistentVolume controller. The reference does not run: its
// volumes are created in its form.
package takeover_test

import (
	"context"
	"os"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// binary is kubectl-stowage, set before any test runs.
var binary string

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, build, node.Install)) }

func build(ctx context.Context, _ *cluster.Cluster) (stop func(), err error) {
	binary, err = cluster.BuildCommand(ctx, cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/kubectl-stowage")
	return func() {}, err
}
