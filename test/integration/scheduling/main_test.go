// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduling_test tests the VolumeTopology plugin with
// existing volumes, end to end: real API server and PV controller, simulated
// nodes.
package scheduling_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m)) }
