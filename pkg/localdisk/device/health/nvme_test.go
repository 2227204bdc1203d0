// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestSMART reads log pages that are composed from the specification.
func TestSMART(t *testing.T) {
	t.Parallel()
	healthy := func() *smartLog {
		l := &smartLog{0, 0x2f, 0x01, 100, 10, 3} // 303 K, all spare blocks, 3% used
		l[160] = 7
		return l
	}
	for name, test := range map[string]struct {
		change func(*smartLog)
		want   []disk.Reason
		errors uint64
	}{
		"a healthy drive":               {change: func(*smartLog) {}, errors: 7},
		"few spare blocks":              {change: func(l *smartLog) { l[0], l[3] = 1, 9 }, want: []disk.Reason{disk.DriveWarning}, errors: 7},
		"a drive that is hot":           {change: func(l *smartLog) { l[0] = 2 }, errors: 7},
		"an unreliable drive":           {change: func(l *smartLog) { l[0] = 4 }, want: []disk.Reason{disk.DriveFailing}, errors: 7},
		"a drive that became read-only": {change: func(l *smartLog) { l[0] = 8 | 4 }, want: []disk.Reason{disk.DriveFailing, disk.DriveFailing}, errors: 7},
		"a drive without power backup":  {change: func(l *smartLog) { l[0] = 16 }, want: []disk.Reason{disk.DriveWarning}, errors: 7},
		"a drive that is worn":          {change: func(l *smartLog) { l[5] = 255 }, want: []disk.Reason{disk.DriveWarning}, errors: 7},
		"many media errors":             {change: func(l *smartLog) { l[160], l[161] = 0x34, 0x12 }, errors: 0x1234},
		"a counter that is too large":   {change: func(l *smartLog) { l[175] = 1 }, errors: math.MaxUint64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := healthy()
			test.change(l)
			var got []disk.Reason
			signs := l.signs("eui.1")
			for _, sign := range signs[1:] {
				got = append(got, sign.Reason)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if counter := signs[0]; counter.Value != test.errors || !counter.Lifetime {
				t.Errorf("media errors are %+v, want %d", counter, test.errors)
			}
		})
	}
}

// TestAdminCommand: the request is that of linux/nvme_ioctl.h.
func TestAdminCommand(t *testing.T) {
	t.Parallel()
	if submitAdmin != 0xC0484E41 {
		t.Errorf("the request is %#x", submitAdmin)
	}
}
