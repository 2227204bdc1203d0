// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskprovisioner_test holds the provisioner to how it lives on a node: how it begins
// and ends, what it takes for its configuration and when, and what it tells of itself
// in reports, events, metrics and to probes.
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
