// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"maps"
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// HealthLimits are how many errors since the last reset make a disk Degraded and Failing.
type HealthLimits struct{ Degraded, Failing uint64 }

// ObserveHealth returns the health of a disk after its signs were read at now. State is only
// raised.
func ObserveHealth(h disk.Health, signs []disk.Sign, limits HealthLimits, now time.Time) disk.Health {
	h.Counters = maps.Clone(h.Counters)
	hung, readError := false, newReadError(&h, signs)
	for i, sign := range signs {
		switch sign.Reason {
		case disk.DiskErrors:
			if n := increase(&h, sign); n > 0 && (sign.Counter != "" || i == readError) {
				h.Errors += n
				raise(&h, limits.state(h.Errors), sign, now)
			}
		case disk.Hung:
			hung = true
			raise(&h, disk.Degraded, sign, now)
		case disk.DriveWarning:
			if increase(&h, sign) > 0 {
				raise(&h, disk.Degraded, sign, now)
			}
		case disk.DeviceReadOnly: // an administrator may have set it, so it lasts as long as scans find it
		default:
			raise(&h, disk.Failing, sign, now)
		}
	}
	if hung {
		h.Hung, h.Answers = true, 0
	} else if h.Hung {
		if h.Answers++; h.Answers >= FaultScans {
			h.Hung, h.Answers = false, 0
		}
	}
	return h
}

// state returns the state of a disk with that many errors.
func (l HealthLimits) state(errors uint64) disk.HealthState {
	switch {
	case errors >= l.Failing:
		return disk.Failing
	case errors >= l.Degraded:
		return disk.Degraded
	default:
		return disk.Healthy
	}
}

// newReadError returns the index of the read error that counts, of those without a counter; -1 if
// none does. An error that both sources find in one observation, or in two that follow each other,
// counts once.
func newReadError(h *disk.Health, signs []disk.Sign) int {
	last := h.Unmatched
	h.Unmatched = ""
	first := -1
	for i, sign := range signs {
		switch {
		case sign.Reason != disk.DiskErrors || sign.Counter != "":
		case first >= 0 && sign.Source != signs[first].Source:
			h.Unmatched = ""
			return first
		case first < 0:
			first, h.Unmatched = i, sign.Source
		}
	}
	if first >= 0 && last != "" && last != h.Unmatched {
		h.Unmatched = ""
		return -1
	}
	return first
}

// increase returns by how much a sign's counter has risen, or 1 without a counter, and stores the
// value of the counter. A value of a file system that is lower than before was reset.
func increase(h *disk.Health, sign disk.Sign) uint64 {
	if sign.Counter == "" {
		return 1
	}
	last, known := h.Counters[sign.Counter]
	if h.Counters == nil {
		h.Counters = map[string]uint64{}
	}
	h.Counters[sign.Counter] = sign.Value
	switch {
	case sign.Lifetime && (!known || sign.Value < last):
		return 0
	case sign.Value < last:
		return sign.Value
	default:
		return sign.Value - last
	}
}

// raise sets a state and its reason, if it is worse than the present one.
func raise(h *disk.Health, state disk.HealthState, sign disk.Sign, now time.Time) {
	if severity(state) <= severity(h.State) {
		return
	}
	h.State, h.Since, h.Reason, h.Message = state, now.UTC().Truncate(time.Second), sign.Reason, sign.Message
}

func severity(state disk.HealthState) int {
	switch state {
	case disk.Failing:
		return 2
	case disk.Degraded:
		return 1
	default:
		return 0
	}
}

// ResetHealth returns the health of a disk that an administrator declared to be healthy. Errors
// that were counted before do not count again.
func ResetHealth(h disk.Health) disk.Health { return disk.Health{Counters: h.Counters} }

// HealthProblem returns why a disk is not healthy, and what to do; nil if it is.
func HealthProblem(h *disk.Health, identity disk.Identity) *disk.Problem {
	reset := "annotate the node's LocalDiskReport with stowage.dev/healthy-disks=" + h.ResetName(identity)
	switch {
	case h.Hung:
		return disk.Problemf(disk.Hung, "the disk answers no request, so no pod is to start on it until it has answered for a minute")
	case h.State == disk.Failing:
		return disk.Problemf(h.Reason, "%s, so no pod is to start on the disk: replace it or, if it is sound or repaired, %s", h.Message, reset)
	case h.State == disk.Degraded:
		return disk.Problemf(h.Reason, "%s; the disk is still used: check it, replace it or, if it is sound, %s", h.Message, reset)
	default:
		return nil
	}
}

// AddHealth adds the health of the disk at the path, or of the volume's if that does not answer. The
// problem of a failing disk replaces that of the last scan, unless that says that no disk is there.
func (s *Slot) AddHealth(h *disk.Health, identity disk.Identity) {
	problem := HealthProblem(h, identity)
	switch {
	case problem == nil || s.Vacant():
	case h.Current() == disk.Failing:
		fact := *s.Fact
		fact.Problem = problem
		s.Fact, s.Unhealthy = &fact, true
	default:
		s.Degraded = problem
	}
}
