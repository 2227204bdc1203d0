// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskfaults_test interrupts the provisioner, the API server and the node's records
// at any moment, and checks one rule: no volume is Available over a disk that is not clean.
package diskfaults_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, node.Install)) }
