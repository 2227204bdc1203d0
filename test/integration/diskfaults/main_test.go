// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskfaults_test takes the provisioner, the API server and what the node
// remembers away at any moment, and holds what is left to one rule: no volume is
// Available over a disk that is not clean.
package diskfaults_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, node.Install)) }
