// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// stepInterval is the least time between two steps.
const stepInterval = 5 * time.Second

// toolPath is where tools are searched for, and the PATH of commands.
const toolPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Run cleans a device, and returns when it is blank or after an error. It blocks meanwhile;
// after the end of the context for one more chunk (64 MiB at most), but an ATA erase that has
// begun cannot be stopped.
//
// Progress, which may be nil, is called on the same goroutine. What a step covers is on the
// disk before it is reported, so that a run that resumes there leaves nothing out; an error
// from Progress ends the run. The last reported step is where to resume; that of a run that
// succeeded is of no use.
//
// Errors are a *disk.Problem where the device or the node has to change: SpecialFile (no block
// device), VolumeInUse, ReadOnly, Grown (another size than Bytes), CleanerMissing (a tool
// or an ability is missing), CleanFailed (done, and not blank). Errors of Verify, of progress
// and of the context are wrapped. A failure before the first write leaves the device
// unchanged. Runs on different devices may be concurrent.
func Run(ctx context.Context, t Target, progress func(disk.Progress) error) error {
	r := &run{Target: t, progress: progress, every: stepInterval, tools: toolPath}
	err := withIdlePriority(func() error { return r.run(ctx) })
	if err != nil {
		return fmt.Errorf("clean %s by %s: %w", t.Device, t.Method.Name, err)
	}
	return nil
}

// run is one call of Run.
type run struct {
	Target
	progress func(disk.Progress) error
	every    time.Duration
	tools    string
	// reported is when a step was last reported.
	reported time.Time
}

func (r *run) run(ctx context.Context) error {
	if r.Verify == nil {
		return errors.New("no check of the device's identity was given")
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	d, err := r.open()
	if err != nil {
		return err
	}
	defer func() { d.close() }()
	if p := password(r.Step); p != "" && r.Method.Name != HDParm {
		// An ATA erase was begun, and then the method was changed. The drive may be locked:
		// finish that first.
		if err := r.securityErase(ctx, d); err != nil {
			return err
		}
	}
	if r.Method.External() {
		// The command may open the device exclusively.
		d.close()
		if err := r.command(ctx); err != nil {
			return err
		}
		again, err := r.open()
		if err != nil {
			return err
		}
		d = again
	} else if err := r.builtIn(ctx, d); err != nil {
		return err
	}
	return r.finish(ctx, d)
}

// open opens the device exclusively, and verifies its identity.
func (r *run) open() (*device, error) {
	d, err := openDevice(r.Device, unix.O_RDWR|unix.O_EXCL)
	if err != nil {
		return nil, err
	}
	if err := r.check(d); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (r *run) check(d *device) error {
	if err := d.verify(r.Verify, r.Bytes); err != nil {
		return err
	}
	readOnly, err := unix.IoctlGetInt(d.fd(), unix.BLKROGET)
	if err != nil {
		return fmt.Errorf("determine whether %s is read-only: %w", r.Device, err)
	}
	if readOnly != 0 {
		return disk.Problemf(disk.ReadOnly, "%s is read-only", r.Device)
	}
	return nil
}

func (r *run) builtIn(ctx context.Context, d *device) error {
	switch r.Method.Name {
	case FSReset:
		return r.zeroSuperblocks(ctx, d)
	case Zero:
		return r.zero(ctx, d)
	case DDZero, Shred:
		return r.overwrite(ctx, d)
	case BlkDiscard:
		return r.discard(ctx, d)
	case HDParm:
		return r.hdparm(ctx, d)
	default:
		return fmt.Errorf("unknown method %q", r.Method.Name)
	}
}

// finish ends the clean, and checks the result.
func (r *run) finish(ctx context.Context, d *device) error {
	if err := d.flush(); err != nil {
		return err
	}
	what, err := d.inspect(ctx, r.Mode)
	if err != nil {
		return err
	}
	if what != "" {
		return disk.Problemf(disk.CleanFailed, "%s is not blank after %s: %s", r.Device, r.Method, what)
	}
	d.rereadPartitions()
	return r.report(disk.Progress{Done: r.Bytes, Total: r.Bytes, Step: finishedStep})
}

// Target is a device to be cleaned, and how.
type Target struct {
	// Device is the path of the device's node, symlinks resolved.
	Device string
	// Bytes is the size that the device has to have.
	Bytes  int64
	Mode   disk.Mode
	Method Method
	// Step is the last Progress.Step of an earlier run, if any.
	Step string
	// Verify returns an error if the open device is not the one to be cleaned. It is required,
	// and is called before anything is changed, and again after a command. It must neither
	// close nor keep the file.
	Verify func(*os.File) error
}
