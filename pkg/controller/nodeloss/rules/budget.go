// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"time"
)

// Window is the interval in which releases are counted.
const Window = time.Minute

// Leeway is the time after the release was written in which the claim may be deleted.
const Leeway = 10 * time.Second

// WithinLeeway reports whether the claim of a release may be deleted now. Later the release is
// written again, within the budget: otherwise claims whose releases were written before a
// controller crashed would be deleted in addition to those of its successor. A release dated in
// the future would be counted at another time than its claim is deleted.
func (r *BegunRelease) WithinLeeway(now time.Time) bool {
	return now.Sub(r.At) <= Leeway && r.At.Sub(now) <= Leeway
}

// Spent is how many of the releases, by the UID of their volumes, may have had a claim deleted in
// the window that ends now. Releases dated further ahead than clocks may differ do not count: they
// would block all others forever.
func Spent(releases map[string]time.Time, now time.Time) int {
	return len(inWindow(releases, now))
}

// AvailableAt is when budget is available again: when fewer than limit releases, which is at least
// 1, are in the window.
func AvailableAt(releases map[string]time.Time, limit int, now time.Time) time.Time {
	in := inWindow(releases, now)
	if len(in) < limit {
		return now
	}
	slices.SortFunc(in, time.Time.Compare)
	return in[len(in)-max(limit, 1)].Add(Window + Leeway)
}

// inWindow returns the times of the releases in the window.
func inWindow(releases map[string]time.Time, now time.Time) []time.Time {
	var in []time.Time
	for _, at := range releases {
		if at.After(now.Add(-Window-Leeway)) && at.Before(now.Add(Window)) {
			in = append(in, at)
		}
	}
	return in
}
