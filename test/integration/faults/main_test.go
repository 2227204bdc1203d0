// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults_test shows, on a real control plane, what is left when
// something goes wrong between the choice of a volume and the pod's binding:
// schedulers that die, objects that vanish, others that write first, servers
// that are away. However it went, in the end every pod is placed, no volume was
// given to two claims, and claims and volumes refer to each other.
package faults_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m)) }
