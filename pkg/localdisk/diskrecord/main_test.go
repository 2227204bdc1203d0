// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	writeUntilKilled()
	goleak.VerifyTestMain(m)
}
