// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package disks_test tests the provisioner with real disks, a real API server and
// the real PersistentVolume controller: which disks are published, which are refused, what
// happens to volumes whose disks change, and how they are cleaned.
package disks_test

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, node.Install)) }
