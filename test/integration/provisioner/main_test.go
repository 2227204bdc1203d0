// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioner_test tests the provisioner's lifecycle on a node: how it starts
// and ends, which configuration it accepts and when, and its reports, events, metrics and
// probes.
package provisioner_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, node.Install)) }

func newNode(t *testing.T) *node.Node {
	t.Helper()
	t.Parallel()
	return node.New(t, fixture.New(t), "a")
}
