// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reportCPU adds the CPU time of the benchmark's thread, on which other load on the
// machine has little influence, as cpu-ns/op. The caller defers done.
func reportCPU(b *testing.B) (done func()) {
	runtime.LockOSThread()
	begin := threadTime(b)
	return func() {
		b.ReportMetric(float64(threadTime(b)-begin)/float64(b.N), "cpu-ns/op")
		runtime.UnlockOSThread()
	}
}

func threadTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
