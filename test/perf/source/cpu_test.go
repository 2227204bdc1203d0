// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCPUTime compares the clock of this process with its resource usage, which is in microseconds.
func TestCPUTime(t *testing.T) {
	usage := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := usage()
	got, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after := usage(); got < before-time.Millisecond || got > after+time.Millisecond {
		t.Errorf("%s, want between %s and %s", got, before, after)
	}
}
