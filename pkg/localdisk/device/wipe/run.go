// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wipe cleans block devices, and determines whether they are blank. The guarantees of
// the methods differ:
//
//	fs-reset    zeroes both ends of the device and every place where a known format keeps
//	            a superblock or a copy of it. All other bytes remain readable.
//	blkdiscard  discards the whole device, then as fs-reset. Whether old bytes remain
//	            readable depends on the device.
//	zero        the device reads as zeros from end to end. The device is asked to zero
//	            (punching holes, then writing zeroes); where it cannot, or did not, zeros
//	            are written.
//	dd-zero     writes zeros to the whole device, as often as configured.
//	shred       writes random bytes to the whole device, as often as configured, then zeros.
//	hdparm      ATA secure erase by the tool of that name, then as fs-reset.
//	a path      a command, with the device in LOCAL_PV_BLKDEVICE.
//
// With every method, a run succeeds only if Inspect finds nothing afterwards; zero also reads
// samples of every stretch. Whether a device that was not cleaned here is blank is proven by
// ProveBlank only, which reads every byte. A device with spare sectors may keep old bytes in
// them after any method but a secure erase.
//
// The device is held by one descriptor with O_EXCL from the verification of its identity to
// the last byte, so that nothing can mount it meanwhile. Commands are the exception: they have
// the device to themselves, and its identity is verified before and after them. Reads and
// writes bypass the page cache, at idle I/O priority. A run needs less than 8 MiB of memory.
package wipe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/command"
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
	if filepath.IsAbs(r.Method.Name) {
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
	readOnly := 0
	if err = d.verify(r.Verify, r.Bytes); err == nil {
		readOnly, err = unix.IoctlGetInt(d.fd(), unix.BLKROGET)
	}
	if err == nil && readOnly != 0 {
		err = disk.Problemf(disk.ReadOnly, "%s is read-only", r.Device)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (r *run) builtIn(ctx context.Context, d *device) error {
	switch r.Method.Name {
	case FSReset:
		return r.zeroSuperblocks(ctx, d)
	case Zero:
		return r.zeroBy(ctx, d, []zeroer{punchHole, zeroOut, writeZeros})
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
		return fmt.Errorf("inspect: %w", err)
	}
	if what != "" {
		return disk.Problemf(disk.CleanFailed, "%s is not blank after %s: %s", r.Device, r.Method, what)
	}
	// The kernel reads the partition table again, so that no device remains for a partition that
	// was wiped. This fails on a partition, and on a device whose partitions are open: the next
	// reader finds no table.
	_ = unix.IoctlSetInt(d.fd(), unix.BLKRRPART, 0)
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

// command runs the method's command.
func (r *run) command(ctx context.Context) error {
	if err := executable(r.Method.Name); err != nil {
		return err
	}
	if err := r.report(disk.Progress{}); err != nil {
		return err
	}
	cmd := exec.Command(r.Method.Name, r.Method.Args...)
	cmd.Env = []string{"LOCAL_PV_BLKDEVICE=" + r.Device, "PATH=" + toolPath}
	return command.Run(ctx, cmd)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return disk.Problemf(disk.CleanerMissing, "the provisioner's image has no command %s", path)
	case err != nil:
		return fmt.Errorf("find command: %w", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return disk.Problemf(disk.CleanerMissing, "%s cannot be executed", path)
	default:
		return nil
	}
}
