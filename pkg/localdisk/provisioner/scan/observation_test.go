// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// look is one scan of class "fast", and what Compare returns for it.
type look struct {
	fact    *disk.Fact    // at /mnt/fast/a; nil for none
	trouble *disk.Problem // of the directory
	after   time.Duration // since the scan before
	changed bool
	soon    bool
	missed  int
}

func TestCompare(t *testing.T) {
	const apart = 5 * time.Second
	key := disk.Key{Class: "fast", Name: "a"}
	good := &disk.Fact{Key: key, HostPath: "/mnt/fast/a", Kind: disk.Mount, Identity: "fs:a", Bytes: 1}
	other := &disk.Fact{Key: key, HostPath: "/mnt/fast/a", Kind: disk.Mount, Identity: "fs:b", Bytes: 1}
	hung := &disk.Fact{Key: key, HostPath: "/mnt/fast/a", Kind: disk.Mount, Identity: "fs:a", Bytes: 1, Problem: disk.Problemf(disk.TimedOut, "no answer")}
	unreadable := disk.Problemf(disk.Unreadable, "no such directory")
	for name, looks := range map[string][]look{
		"a disk that stays has not changed":   {{fact: good, changed: true}, {fact: good, after: apart}},
		"another disk has changed":            {{fact: good, changed: true}, {fact: other, after: apart, changed: true}},
		"a missing disk is confirmed later":   {{fact: good, changed: true}, {after: apart, changed: true, soon: true, missed: 1}, {after: apart, changed: true, missed: 2}, {after: apart, missed: 2}},
		"two scans at once count as one":      {{fact: good, changed: true}, {after: apart, changed: true, soon: true, missed: 1}, {after: apart / 2, soon: true, missed: 1}},
		"a disk that returns is not missing":  {{fact: good, changed: true}, {after: apart, changed: true, soon: true, missed: 1}, {fact: good, after: apart, changed: true}},
		"a directory that cannot be read":     {{fact: good, changed: true}, {trouble: unreadable, after: apart, changed: true}, {trouble: unreadable, after: apart}},
		"one slow answer changes the problem": {{fact: good, changed: true}, {fact: hung, after: apart, changed: true, soon: true}, {fact: good, after: apart, changed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				folders, known := Folders{{Class: "fast", HostPath: "/mnt/fast"}}, []disk.Known{{Key: key, HostPath: "/mnt/fast/a", Volume: "pv"}}
				state := State{Read: map[string]bool{"fast": true}}
				for i, l := range looks {
					time.Sleep(l.after) //nolint:forbidigo // the bubble's time
					scanned := disk.Scanned{Facts: map[disk.Key]disk.Fact{}, Trouble: map[string]*disk.Problem{}}
					if l.fact != nil {
						scanned.Facts[key] = *l.fact
					}
					if l.trouble != nil {
						scanned.Trouble["fast"] = l.trouble
					}
					var changed []string
					var soon bool
					state, changed, soon = Compare(state, scanned, folders, known, apart)
					if got := slices.Contains(changed, "/mnt/fast/a"); got != l.changed || soon != l.soon || state.Paths["/mnt/fast/a"].Missed != l.missed {
						t.Errorf("scan %d: changed %t, soon %t, missed %d; want %t, %t, %d", i, got, soon, state.Paths["/mnt/fast/a"].Missed, l.changed, l.soon, l.missed)
					}
				}
			})
		})
	}
	if decide.AbsentAfter != 2 {
		t.Errorf("the table is written for 2 scans, not %d", decide.AbsentAfter)
	}
}
