// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the CPU time of the calling thread, which other load on the
// machine hardly changes.
func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // the clock exists since Linux 2.6
	}
	return time.Duration(now.Nano())
}
