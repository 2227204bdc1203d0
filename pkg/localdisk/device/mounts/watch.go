// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package mounts

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Watch calls changed once after it has begun to watch, so that no later change is missed, and
// then whenever something was mounted or unmounted in the namespace of a mountinfo file, until
// ctx ends; it then returns nil. changed is called by the goroutine that called Watch. Any
// number of changes during a call cause one more call.
//
// Watch blocks in poll(2) on a thread; it does not poll at intervals.
func Watch(ctx context.Context, file string, changed func()) error {
	// Not os.Open: it would register the file with the runtime's poller, and the kernel reports
	// each change to the first poller only.
	f, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("watch mounts: open %s: %w", file, err)
	}
	defer unix.Close(f)
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("watch mounts: make an eventfd: %w", err)
	}
	defer unix.Close(end)

	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_, _ = unix.Write(end, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // any non-zero number, in any byte order
	})
	defer func() {
		if !stop() {
			<-woken // end is closed after this
		}
	}()

	changed()
	for {
		again, err := wait(f, end)
		if err != nil {
			return fmt.Errorf("watch mounts of %s: %w", file, err)
		}
		if ctx.Err() != nil {
			return nil
		}
		if again {
			changed()
		}
	}
}

// wait blocks until the mounts have changed, or end can be read.
func wait(mountinfo, end int) (changed bool, err error) {
	// The kernel reports POLLERR|POLLPRI; POLLERR is implied.
	set := []unix.PollFd{
		{Fd: int32(mountinfo), Events: unix.POLLPRI},
		{Fd: int32(end), Events: unix.POLLIN},
	}
	_, err = unix.Poll(set, -1)
	switch got := set[0].Revents; {
	case errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("poll: %w", err)
	case got&(unix.POLLNVAL|unix.POLLHUP) != 0:
		return false, fmt.Errorf("poll: unexpected event %#x", got)
	default:
		return got&(unix.POLLERR|unix.POLLPRI) != 0, nil
	}
}
