// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"testing"

	"stowage.dev/stowage/test/e2e/frame"
)

func TestMain(m *testing.M) { os.Exit(frame.Main(m, frame.Options{})) }
