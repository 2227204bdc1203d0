// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioning_test tests the VolumeTopology plugin with
// volumes that are to be provisioned or recycled: real API server, PV
// controller and external provisioner, simulated nodes.
package provisioning_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, vendors.begin)) }

// bothModes runs a test with each binding mode.
func bothModes(t *testing.T, test func(*fixture.Env)) {
	t.Helper()
	for _, profile := range fixture.SharedProfiles() {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			e.Use(profile)
			test(e)
		})
	}
}
