// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskstress_test runs the stress test that the local volume provisioner's issues
// requested against all of Stowage: a few hundred local volumes, more pods,
// each with some claims, that are created and deleted at random. Every pod is placed in the end,
// as volumes are recycled, and none can read the data of another.
package diskstress_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, node.Install)) }
