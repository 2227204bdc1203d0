// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// samples is how many pages Sample reads between the ends of a device.
const samples = 64

// Sample searches for data where it is found quickly: at suspect, unless that is negative,
// then known signatures, the first and the last MiB, and pages at a fixed stride between them.
// It returns disk.ContentSome and the place of what it found, or disk.ContentSampled: only
// ProveBlank can prove that a device is blank. It reads a few MiB past the page cache and
// changes nothing; the device may be in use.
func Sample(ctx context.Context, path string, suspect int64) (disk.Content, string, error) {
	d, err := openDevice(path, unix.O_RDONLY)
	if err != nil {
		return disk.ContentUnknown, "", fmt.Errorf("sample: %w", err)
	}
	defer d.close()
	what, err := d.sampleAll(ctx, suspect)
	switch {
	case err != nil:
		return disk.ContentUnknown, "", fmt.Errorf("sample %s: %w", path, err)
	case what != "":
		return disk.ContentSome, what, nil
	default:
		return disk.ContentSampled, "", nil
	}
}

func (d *device) sampleAll(ctx context.Context, suspect int64) (string, error) {
	if suspect >= 0 && suspect < d.size {
		if what, err := d.pageData(ctx, suspect); what != "" || err != nil {
			return what, err
		}
	}
	if what, err := d.inspect(ctx, disk.Block); what != "" || err != nil {
		return what, err
	}
	for i := range int64(samples) {
		// Not size*i/samples, which overflows.
		if what, err := d.pageData(ctx, d.size/(samples+1)*(i+1)); what != "" || err != nil {
			return what, err
		}
	}
	return "", nil
}

// pageData names the first byte that is not zero in the page of an offset; empty if there is
// none.
func (d *device) pageData(ctx context.Context, at int64) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	at -= at % pageSize
	n := min(pageSize, d.size-at)
	if err := d.read(at, n); err != nil {
		return "", err
	}
	if i := firstSet(d.buf[:n]); i >= 0 {
		return dataAt(at + int64(i)), nil
	}
	return "", nil
}

// Blank is a device that may be blank.
type Blank struct {
	// Device is the path of its node, Sys where sysfs is.
	Device, Sys string
	// Bytes is the size that the device must have.
	Bytes int64
	// From is an earlier proof to resume, Rate the most bytes per second, 0 for no limit.
	From disk.BlankProof
	Rate int64
	// Verify checks the identity of the open device, before the first read and after the
	// last.
	Verify func(*os.File) error
	// Progress is called after each chunk of 4 MiB, on the same goroutine; it may be nil.
	// An error ends the proof.
	Progress func(disk.BlankProof) error
}

// ProveBlank reads a device from b.From on until it has read every byte or found one that is
// not zero. It reads past the page cache at idle I/O priority, takes 4 MiB of memory, does not
// open the device exclusively, and ends one read after its context.
//
// The result is its progress, also after an error, from which another call can resume.
// disk.ErrBlankProofVoid: the device has changed since b.From began, or was written to
// meanwhile; the next call must begin with the zero value. A device whose writes the kernel
// does not count cannot be proven blank: a *disk.Problem, Unreadable. Reading a complete proof
// again only checks that it is still valid.
func ProveBlank(ctx context.Context, b Blank) (disk.BlankProof, error) {
	proof := b.From
	err := withIdlePriority(func() error {
		var err error
		proof, err = b.prove(ctx)
		return err
	})
	if err != nil {
		return proof, fmt.Errorf("prove that %s is blank: %w", b.Device, err)
	}
	return proof, nil
}

func (b Blank) prove(ctx context.Context) (disk.BlankProof, error) {
	d, err := openDevice(b.Device, unix.O_RDONLY)
	if err != nil {
		return b.From, err
	}
	defer d.close()
	if err := d.verify(b.Verify, b.Bytes); err != nil {
		return b.From, err
	}
	writes, err := watchWrites(b.Sys, d)
	if err != nil {
		return b.From, err
	}
	defer writes.close()
	proof := disk.BlankProof{State: writes.state(), Bytes: d.size}
	if b.From != (disk.BlankProof{}) {
		if b.From.State != proof.State || b.From.Bytes != proof.Bytes {
			return disk.BlankProof{}, disk.ErrBlankProofVoid
		}
		proof = b.From
	}
	proof, err = b.readAll(ctx, d, writes, proof)
	if err != nil || proof.Found {
		return proof, err
	}
	if err := writes.unchanged(proof.Done - b.From.Done); err != nil {
		return disk.BlankProof{}, err
	}
	return proof, d.verify(b.Verify, b.Bytes)
}

// readAll reads what is left of a proof.
func (b Blank) readAll(ctx context.Context, d *device, writes *writes, proof disk.BlankProof) (disk.BlankProof, error) {
	pace := newPace(b.Rate)
	for !proof.Found && proof.Done < proof.Bytes {
		if err := context.Cause(ctx); err != nil {
			return proof, err
		}
		n := min(chunk, proof.Bytes-proof.Done)
		if err := d.read(proof.Done, n); err != nil {
			return proof, err
		}
		if i := firstSet(d.buf[:n]); i >= 0 {
			proof.Done, proof.Found = proof.Done+int64(i), true
		} else {
			proof.Done += n
		}
		if err := writes.same(); err != nil {
			return disk.BlankProof{}, err
		}
		if err := b.report(proof); err != nil {
			return proof, err
		}
		if err := pace.WaitN(ctx, int(n)); err != nil {
			return proof, cmp.Or(context.Cause(ctx), err)
		}
	}
	return proof, nil
}

func (b Blank) report(proof disk.BlankProof) error {
	if b.Progress == nil {
		return nil
	}
	setIOPriority(ioprioNone) // it may write to a busy disk
	defer setIOPriority(ioprioIdle)
	return b.Progress(proof)
}

// newPace limits bytes per second; 0 is no limit. Time that a slow device took is not made up
// for, except for one chunk.
func newPace(bytes int64) *rate.Limiter {
	if bytes <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	pace := rate.NewLimiter(rate.Limit(bytes), int(chunk))
	pace.AllowN(time.Now(), int(chunk)) // the first chunk is not free
	return pace
}
