// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// FaultLooks is how many looks in a row must contradict what is known of a disk's health
// before it changes: one slow answer on a busy node makes no disk failing, and one good
// answer makes no failing disk healthy.
const FaultLooks = 12

// Fault follows a disk that does not answer, or answers with I/O errors. The zero value
// is a healthy disk.
type Fault struct {
	// Failing says that the disk is failing. It stays so until the disk has given
	// FaultLooks good answers in a row.
	Failing bool
	// last is the last bad answer.
	last disk.Problem
	// looks in a row have contradicted Failing; the last of them that counted was at.
	looks int
	at    time.Time
}

// Observe accounts for a look at a time. problem is what was wrong, nil if nothing was.
// Looks that follow one another in less than apart count as one.
func (f Fault) Observe(problem *disk.Problem, now time.Time, apart time.Duration) Fault {
	bad := problem != nil && mayPass(problem.Reason)
	if bad {
		f.last = *problem
	}
	switch {
	case bad == f.Failing:
		f.looks = 0
	case f.looks == 0 || now.Sub(f.at) >= apart:
		f.looks, f.at = f.looks+1, now
	}
	if f.looks >= FaultLooks {
		f.Failing, f.looks = bad, 0
	}
	if !bad && !f.Failing {
		return Fault{}
	}
	return f
}

// Changing reports whether further looks decide if the disk is failing.
func (f Fault) Changing() bool { return f.looks > 0 }

// Problem is what is wrong with a disk that is failing although its last answer was good;
// nil in all other cases.
func (f Fault) Problem(found *disk.Problem) *disk.Problem {
	if !f.Failing || found != nil {
		return found
	}
	return disk.Problemf(f.last.Reason, "the disk answers again, and is used once it has answered well %d times in a row; before: %s", FaultLooks, f.last.Message)
}

// mayPass reports whether a fault may be over by itself at the next look.
func mayPass(reason disk.Reason) bool {
	return reason == disk.TimedOut || reason == disk.IOError
}

// Failing reports whether the disk at the path is known to be failing: the kernel says so,
// or it has given no good answer for a while. The volume's mark outlives the process that
// has counted the looks.
func (s *Slot) Failing() bool {
	if s.Fact == nil || s.Fact.Problem == nil {
		return false
	}
	switch reason := s.Fact.Problem.Reason; reason {
	case disk.FilesystemError, disk.DeviceReadOnly:
		return true
	default:
		return mayPass(reason) && (s.Persistent || s.Volume != nil && s.Volume.Mark == disk.MarkFailing)
	}
}
