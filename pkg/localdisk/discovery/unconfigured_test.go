// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"testing"

	"stowage.dev/stowage/pkg/localdisk/discovery"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

// TestNotConfigured: a volume that the configuration does not ask for any more stays,
// and is told of, whether its directory is still looked into or not.
func TestNotConfigured(t *testing.T) {
	for name, change := range map[string]func(*slot.Slot){
		"the class is not there any more":    func(s *slot.Slot) { s.Configured, s.Looked, s.Fact = false, false, nil },
		"no pattern asks for the name":       func(s *slot.Slot) { s.Configured = false },
		"the class is there, and not looked": func(s *slot.Slot) { s.Looked, s.Fact = false, nil },
	} {
		t.Run(name, func(t *testing.T) {
			for _, phase := range []disk.Phase{disk.PhaseAvailable, disk.PhaseBound} {
				s := published(phase)
				change(s)
				d := discovery.Decide(s, first)
				if told := d.Problem != nil && d.Problem.Reason == disk.NotConfigured; d.Do != slot.None || told == s.Configured {
					t.Errorf("%s: %+v (%v), want nothing to be done, and NotConfigured if it is not", phase, d, d.Problem)
				}
			}
		})
	}
}
