// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskstress_test holds the whole of Stowage against the stress test that the
// local volume provisioner was asked for with: a few hundred local volumes, more pods,
// each with some claims, that come and go at random. Every pod is placed in the end,
// as volumes come back, and none finds what another one has left.
package diskstress_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, node.Install)) }
