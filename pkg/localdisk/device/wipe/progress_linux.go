// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	ioprioProcess = 1       // of ioprio_set: a thread, by its ID; 0 is the caller
	ioprioNone    = 0       // follows the nice value
	ioprioIdle    = 3 << 13 // served when the device is otherwise idle
)

// withIdlePriority runs work on a thread whose I/O, and that of the processes it starts, has
// idle priority, if the kernel supports that.
func withIdlePriority(work func() error) error {
	// The process dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setIOPriority(ioprioIdle)
	defer setIOPriority(ioprioNone)
	return work()
}

func setIOPriority(p uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioProcess, 0, p)
}

// tell reports progress, which may write to a busy disk of the node: not at idle priority.
func (r *run) tell(p disk.Progress) error {
	if r.progress == nil {
		return nil
	}
	p.Method = r.Method.Name
	setIOPriority(ioprioNone)
	defer setIOPriority(ioprioIdle)
	if err := r.progress(p); err != nil {
		return fmt.Errorf("report progress: %w", err)
	}
	return nil
}

// sweep calls each for the stretches of at most size bytes that a device has from a
// point on, pass by pass, and writes down how far it is: every few seconds, at the
// end of a pass, and when the context ends.
func (r *run) sweep(ctx context.Context, d *device, size int64, each func(pass int, s stretch) error) error {
	p := resume(r.Step, r.Method, d.size)
	r.reported = time.Now()
	for ; p.pass <= r.Method.sweeps(); p = (point{pass: p.pass + 1}) {
		for p.offset < d.size {
			if err := context.Cause(ctx); err != nil {
				if told := r.reach(d, p); told != nil {
					return told
				}
				return err
			}
			next := min(p.offset+size, d.size)
			if err := each(p.pass, stretch{p.offset, next}); err != nil {
				return err
			}
			p.offset = next
			if p.offset < d.size && time.Since(r.reported) >= r.every {
				if err := r.reach(d, p); err != nil {
					return err
				}
			}
		}
		if err := r.reach(d, p); err != nil {
			return err
		}
	}
	return nil
}

// reach reports a point as a step. The drive's cache is flushed before: if a drive lost power,
// old bytes would remain that no resumed run reads again.
func (r *run) reach(d *device, p point) error {
	if err := d.sync(); err != nil {
		return err
	}
	r.reported = time.Now()
	return r.tell(disk.Progress{
		Done:  int64(p.pass-1)*d.size + p.offset,
		Total: int64(r.Method.sweeps()) * d.size,
		Step:  p.step(r.Method, d.size),
	})
}
