// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"fmt"
	"runtime"
	"strings"
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

// report reports progress, which may write to a busy disk of the node: not at idle priority.
func (r *run) report(p disk.Progress) error {
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

// sweep calls each for every stretch, of at most size bytes, from the point of the last step on,
// pass by pass. It reports a step every few seconds, at the end of a pass, and when the context
// ends.
func (r *run) sweep(ctx context.Context, d *device, size int64, each func(pass int, s stretch) error) error {
	p := resume(r.Step, r.Method, d.size)
	r.reported = time.Now()
	for ; p.pass <= r.Method.sweeps(); p = (point{pass: p.pass + 1}) {
		for p.offset < d.size {
			if err := context.Cause(ctx); err != nil {
				if reporting := r.reportPoint(d, p); reporting != nil {
					return reporting
				}
				return err
			}
			next := min(p.offset+size, d.size)
			if err := each(p.pass, stretch{p.offset, next}); err != nil {
				return err
			}
			p.offset = next
			if p.offset < d.size && time.Since(r.reported) >= r.every {
				if err := r.reportPoint(d, p); err != nil {
					return err
				}
			}
		}
		if err := r.reportPoint(d, p); err != nil {
			return err
		}
	}
	return nil
}

// reportPoint reports a point as a step. The drive's cache is flushed before: if a drive lost power,
// old bytes would remain that no resumed run reads again.
func (r *run) reportPoint(d *device, p point) error {
	if err := d.file.Sync(); err != nil {
		return err
	}
	r.reported = time.Now()
	return r.report(disk.Progress{
		Done:  int64(p.pass-1)*d.size + p.offset,
		Total: int64(r.Method.sweeps()) * d.size,
		Step:  p.step(r.Method, d.size),
	})
}

// chunk is how much is written at a time, and what steps count in, in bytes.
const chunk = 4 * mib

// point is the progress of a method that writes the device from end to end: everything before
// the offset is done in this pass. Passes count from 1.
type point struct {
	pass   int
	offset int64
}

// step encodes a point for Progress.Step, with the method and the size: the progress of another
// method, or on a device of another size, does not apply.
func (p point) step(m Method, size int64) string {
	return fmt.Sprintf("%s %d:%d/%d", m.key(), p.pass, p.offset, size)
}

func (m Method) key() string {
	if m.Passes > 0 {
		return fmt.Sprintf("%s/%d", m.Name, m.Passes)
	}
	return m.Name
}

// resume parses a step. One of another method, or an invalid one, starts from the beginning.
func resume(step string, m Method, size int64) point {
	var p point
	_, err := fmt.Sscanf(strings.TrimPrefix(step, m.key()+" "), "%d:%d/", &p.pass, &p.offset)
	if err != nil || p.step(m, size) != step || p.pass < 1 || p.pass > m.sweeps() || p.offset < 0 || p.offset > size || p.offset%chunk != 0 && p.offset != size {
		return point{pass: 1}
	}
	return p
}

// sweeps is how often a method writes the device.
func (m Method) sweeps() int {
	switch m.Name {
	case Shred:
		return m.Passes + 1 // the last writes zeros
	case DDZero:
		return m.Passes
	default:
		return 1
	}
}

// The steps of an ATA secure erase. The password is recorded before it is set: a drive that
// loses power during the erase is locked, and only the password unlocks it.
const (
	securityStep = HDParm + " password "
	erasedStep   = HDParm + " erased"
)

// finishedStep is the last of every method. The disk's next clean starts from the beginning, even
// if it gets this step.
const finishedStep = "finished"

// password reads the password from a step; empty if it has none.
func password(step string) string {
	p, ok := strings.CutPrefix(step, securityStep)
	if !ok || len(p) != 2*passwordBytes || strings.Trim(p, "0123456789abcdef") != "" {
		return ""
	}
	return p
}

// passwordBytes random bytes make, in hex, the 32 characters that ATA allows.
const passwordBytes = 16
