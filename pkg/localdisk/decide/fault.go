// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// FaultScans is how many consecutive scans must contradict a disk's known health before it
// changes: neither one slow answer on a busy node nor one good answer of a failing disk
// changes it.
const FaultScans = 12

// AbsentAfter is how many consecutive scans must find no disk before it counts as absent: a
// remount removes it for a moment.
const AbsentAfter = 2

// Fault tracks timeouts and I/O errors of a disk. The zero value is a healthy disk.
type Fault struct {
	// Failing reports whether the disk is failing: until FaultScans consecutive good answers.
	Failing bool
	// last is the last bad answer.
	last disk.Problem
	// scans counts consecutive scans that contradict Failing; the last one counted was at.
	scans int
	at    time.Time
}

// Observe accounts for a scan at now. problem is what it found wrong, or nil. Scans less than
// apart after the last counted one are not counted.
func (f Fault) Observe(problem *disk.Problem, now time.Time, apart time.Duration) Fault {
	bad := problem != nil && (problem.Reason == disk.TimedOut || problem.Reason == disk.IOError)
	if bad {
		f.last = *problem
	}
	switch {
	case bad == f.Failing:
		f.scans = 0
	case f.scans == 0 || now.Sub(f.at) >= apart:
		f.scans, f.at = f.scans+1, now
	}
	if f.scans >= FaultScans {
		f.Failing, f.scans = bad, 0
	}
	if !bad && !f.Failing {
		return Fault{}
	}
	return f
}

// Changing reports whether the next scans may change Failing.
func (f Fault) Changing() bool { return f.scans > 0 }

// Problem returns found, or for a failing disk whose last answer was good, the problem of the
// last bad one.
func (f Fault) Problem(found *disk.Problem) *disk.Problem {
	if !f.Failing || found != nil {
		return found
	}
	return disk.Problemf(f.last.Reason, "the disk answers again, and is used after %d good answers in a row; before: %s", FaultScans, f.last.Message)
}
