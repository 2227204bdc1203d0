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
