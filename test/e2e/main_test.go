// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e has the tests of whole clusters with real nodes: see package frame for how they are
// written, and "make e2e" for how they are run.
package e2e

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/e2e/frame"
)

func TestMain(m *testing.M) { os.Exit(frame.Main(m, frame.Options{})) }
