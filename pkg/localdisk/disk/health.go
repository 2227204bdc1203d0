// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"cmp"
	"strconv"
	"time"
)

// HealthState is how healthy a disk is.
type HealthState string

// The states of health.
const (
	Healthy  HealthState = "Healthy"
	Degraded HealthState = "Degraded" // there are signs of failure; it is reported, and still offered
	Failing  HealthState = "Failing"  // no pod is to start on it
)

// Health is what is known about the health of a disk. It survives a restart, since signs do not:
// a check of the file system or a remount erases them. The zero value is a disk without signs.
type Health struct {
	// State is kept until ResetHealth; empty is Healthy. Since is when it was last raised, and
	// Reason and Message are the sign that raised it.
	State   HealthState `json:"state,omitempty"`
	Since   time.Time   `json:"since,omitzero"`
	Reason  Reason      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// Errors is how many errors were found since the last reset. Counters are the kernel's and
	// the drive's counters of errors as last read.
	Errors   uint64            `json:"errors,omitempty"`
	Counters map[string]uint64 `json:"counters,omitempty"`
	// Hung: the disk answers no request. Answers counts observations since it answers again.
	Hung    bool `json:"hung,omitempty"`
	Answers int  `json:"-"`
	// Unmatched is what found a read error in the last observation, if the other source may still find
	// the same one.
	Unmatched Source `json:"-"`
}

// Current returns the state now: that of a disk that hangs is Failing.
func (h *Health) Current() HealthState {
	if h.Hung {
		return Failing
	}
	return cmp.Or(h.State, Healthy)
}

// ResetName names a state of a disk's health, by which an administrator resets it. It does not
// match a later state.
func (h *Health) ResetName(identity Identity) string {
	return AcknowledgementOf(identity, strconv.FormatInt(h.Since.Unix(), 10))
}

// Source is what found a read error that no counter counts. The kernel logs errors of the
// provisioner's reads too.
type Source string

// The sources.
const (
	OwnRead   Source = "OwnRead"
	KernelLog Source = "KernelLog"
)

// Sign is one finding that a disk may be failing.
type Sign struct {
	// Reason is FilesystemError, WriteLost, DiskErrors, Hung, DriveWarning, DriveFailing or
	// DeviceReadOnly, which a scan judges.
	Reason  Reason
	Message string
	// Counter names the counter that the sign is from, Value is its value. It may be reset, by a check
	// of the file system. Without a counter the sign is one error, which Source found.
	Counter string
	Value   uint64
	Source  Source
	// Lifetime: the drive keeps the counter, so it includes errors from before the disk was first
	// watched, and is not reset.
	Lifetime bool
}

// HealthTarget is a disk whose health is read.
type HealthTarget struct {
	Identity Identity
	// Places are Fact.Place and Fact.Overlaps, the former first.
	Places []string
	// Probe: the disk is expected to answer reads. It may not while it is cleaned.
	Probe bool
}
