// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package reclaim_test

import (
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/reclaim"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

// TestClassRemoved: a volume whose class the configuration has no more is not cleaned,
// and it is told why, although its directory is not looked into any more.
func TestClassRemoved(t *testing.T) {
	for name, s := range map[string]*slot.Slot{"released": released(), "being deleted": deleting()} {
		t.Run(name, func(t *testing.T) {
			s.Configured, s.Looked, s.Fact, s.Record = false, false, nil, nil
			d := reclaim.Decide(s)
			if d.Do != slot.None || d.Problem == nil || d.Problem.Reason != disk.NotConfigured {
				t.Errorf("decided %+v (%v), want nothing done and NotConfigured", d, d.Problem)
			}
			s.Configured = true
			if d := reclaim.Decide(s); d.Do != slot.None || d.Problem != nil {
				t.Errorf("decided %+v (%v) before the directory was looked into, want to wait", d, d.Problem)
			}
		})
	}
}
