// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLedger(t *testing.T) {
	began := time.Unix(1_000_000, 500)
	now := began.Add(time.Hour)
	file := func(changed time.Time, links uint32) *unix.Statx_t {
		return &unix.Statx_t{
			Mode: unix.S_IFREG, Nlink: links,
			Ctime: unix.StatxTimestamp{Sec: changed.Unix(), Nsec: uint32(changed.Nanosecond())},
		}
	}
	directory := func(changed time.Time) *unix.Statx_t {
		st := file(changed, 50)
		st.Mode = unix.S_IFDIR
		return st
	}
	before, since := began.Add(-time.Nanosecond), began
	tests := map[string]struct {
		met       []*unix.Statx_t
		times     int
		contested int
		want      bool
	}{
		"any number of old files":           {met: []*unix.Statx_t{file(before, 1)}, times: 10 * foreignLimit},
		"any number of old directories":     {met: []*unix.Statx_t{directory(before)}, times: 10 * foreignLimit},
		"all links of an old file":          {met: []*unix.Statx_t{file(before, 3), file(since, 2), file(now, 1)}, times: foreignLimit},
		"an old file with one link more":    {met: []*unix.Statx_t{file(before, 2), file(since, 2), file(now, 1)}, times: foreignLimit + 1, want: true},
		"new files, as many as may be":      {met: []*unix.Statx_t{file(since, 1)}, times: foreignLimit},
		"new files, one more":               {met: []*unix.Statx_t{file(since, 1)}, times: foreignLimit + 1, want: true},
		"new directories, one more":         {met: []*unix.Statx_t{directory(since)}, times: foreignLimit + 1, want: true},
		"files with a ctime in the future":  {met: []*unix.Statx_t{file(now.Add(time.Minute), 1)}, times: 10 * foreignLimit},
		"files that vanish":                 {contested: contestedLimit},
		"files that vanish, one more":       {contested: contestedLimit + 1, want: true},
		"a directory that is never emptied": {met: []*unix.Statx_t{directory(before)}, times: contestedLimit + 1, contested: contestedLimit + 1, want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := ledger{began: began}
			for range test.times {
				for _, st := range test.met {
					l.examined(st, now)
				}
			}
			for range test.contested {
				l.contest()
			}
			if got := l.exceeded(); got != test.want {
				t.Errorf("exceeded %v, want %v: %+v", got, test.want, l)
			}
		})
	}
}
