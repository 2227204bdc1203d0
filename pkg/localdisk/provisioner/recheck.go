// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import "time"

// recheck is when a path is decided on again that waits for something no event reports. The
// interval starts at retryFirst and doubles after each one that has passed. Decisions that
// events cause in between leave it as it is: otherwise frequent events would postpone it.
type recheck struct {
	interval time.Duration
	due      time.Time
}

// next returns how long until the next recheck, with an interval of last at most.
func (r *recheck) next(now time.Time, last time.Duration) time.Duration {
	switch {
	case r.due.IsZero():
		r.interval, r.due = retryFirst, now.Add(retryFirst)
	case !now.Before(r.due):
		r.interval *= 2
		r.due = now.Add(min(r.interval, last))
	}
	r.interval = min(r.interval, last)
	if latest := now.Add(last); r.due.After(latest) { // the path waits for something else now
		r.due = latest
	}
	return r.due.Sub(now)
}
