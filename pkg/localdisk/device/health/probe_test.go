// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestStalls: a disk hangs if requests are not answered, and not if it is busy. A minute before,
// it had completed 10 reads, 20 writes and 30 discards.
func TestStalls(t *testing.T) {
	t.Parallel()
	const (
		before      = "10 0 80 1 20 0 160 1 2 5 5 30 0 0 0 0 0"
		moreReads   = "11 0 80 1 20 0 160 1 2 5 5 30 0 0 0 0 0"
		moreBoth    = "11 0 80 1 21 0 160 1 2 5 5 30 0 0 0 0 0"
		moreDiscard = "10 0 80 1 20 0 160 1 2 5 5 31 0 0 0 0 0"
	)
	for name, test := range map[string]struct {
		stat, inflight string
		reading        bool // the last read of the disk is not answered
		cleaning       bool
		want           bool
	}{
		"nothing to do":                               {stat: before, inflight: "0 0"},
		"reads that are not answered":                 {stat: before, inflight: "1 0", want: true},
		"writes that are not answered, unlike reads":  {stat: moreReads, inflight: "0 1", want: true},
		"a busy disk":                                 {stat: moreBoth, inflight: "9 9", reading: true},
		"a disk that discards":                        {stat: moreDiscard, inflight: "0 1"},
		"a read that the kernel does not count":       {stat: before, inflight: "0 0", reading: true, want: true},
		"a read that waits while others are answered": {stat: moreReads, inflight: "1 0", reading: true},
		"a disk that is cleaned":                      {stat: before, inflight: "0 1", cleaning: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for file, text := range map[string]string{"stat": test.stat, "inflight": test.inflight} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := New("/none", "/none", "/none")
			past := time.Now().Add(-time.Minute)
			r.stalls["8:0"] = &stall{done: [2]uint64{10, 50}, since: [2]time.Time{past, past}}
			if test.reading {
				r.reads["disk"] = &read{began: past, done: 60, result: make(chan []disk.Sign, 1)}
			}
			at := target{
				HealthTarget: disk.HealthTarget{Identity: "disk", Probe: !test.cleaning},
				devices:      []device{{Device: sysfs.Device(folder), number: "8:0", path: "/none/sda"}},
			}
			signs := r.probe(&at, 15*time.Second)
			var want []disk.Reason
			if test.want {
				want = []disk.Reason{disk.Hung}
			}
			if diff := cmp.Diff(want, shown(signs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !test.reading {
				settle(r)
			}
		})
	}
}
