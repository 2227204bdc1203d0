// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults_test tests, on a real control plane, the state after
// failures between the choice of a volume and the pod's binding:
// schedulers that crash, objects that are deleted, concurrent writers, servers
// that are down. In each case every pod is placed in the end, no volume is
// bound to two claims, and claims and volumes refer to each other.
package faults_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m)) }
