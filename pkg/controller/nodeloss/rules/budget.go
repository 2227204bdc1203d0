// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"
)

// Window is the time in which releases are counted.
const Window = time.Minute

// Leeway is how long after its release was written down a claim may be deleted.
const Leeway = 10 * time.Second

// Prompt says whether the claim of a release may be deleted now. Later it is written down
// anew, within the budget: else claims whose releases were written before a controller died
// would be deleted beside those that the next one begins. One that is dated ahead would be
// counted at another time than it is deleted.
func (r *Began) Prompt(now time.Time) bool {
	return now.Sub(r.At) <= Leeway && r.At.Sub(now) <= Leeway
}

// Spent is how many of the releases, by the UID of their volumes, may have had a claim
// deleted in the window that ends now. Those of a time to come do not count, but for what
// clocks may differ: one with a time that never comes would hold up all others for ever.
func Spent(releases map[string]time.Time, now time.Time) int {
	return len(counted(releases, now))
}

// Refilled is when there will be budget again, if that is spent: when so many releases
// are out of the window that fewer than limit, which is 1 at least, are left.
func Refilled(releases map[string]time.Time, limit int, now time.Time) time.Time {
	in := counted(releases, now)
	if len(in) < limit {
		return now
	}
	slices.SortFunc(in, time.Time.Compare)
	return in[len(in)-max(limit, 1)].Add(Window + Leeway)
}

// counted are the times of those that are in the window.
func counted(releases map[string]time.Time, now time.Time) []time.Time {
	var in []time.Time
	for _, at := range releases {
		if at.After(now.Add(-Window-Leeway)) && at.Before(now.Add(Window)) {
			in = append(in, at)
		}
	}
	return in
}
