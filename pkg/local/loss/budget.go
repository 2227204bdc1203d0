// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package loss

import "time"

// Window is the time in which releases are counted.
const Window = time.Minute

// Spent is how many of the releases, by the UID of their volumes, are in the window
// that ends now.
func Spent(releases map[string]time.Time, now time.Time) int {
	n := 0
	for _, at := range releases {
		if at.After(now.Add(-Window)) {
			n++
		}
	}
	return n
}

// Refilled is when there will be budget again, if that is spent: when so many releases
// are out of the window that fewer than limit are left.
func Refilled(releases map[string]time.Time, limit int, now time.Time) time.Time {
	soonest := now
	for Spent(releases, soonest) >= limit {
		oldest := soonest.Add(Window)
		for _, at := range releases {
			if out := at.Add(Window); out.After(soonest) && out.Before(oldest) {
				oldest = out
			}
		}
		soonest = oldest
	}
	return soonest
}
