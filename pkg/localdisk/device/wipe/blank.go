// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
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
	return examine(path, disk.ContentSampled, func(d *device) (string, error) { return d.sample(ctx, suspect) })
}

func (d *device) sample(ctx context.Context, suspect int64) (string, error) {
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
	// Verify checks the identity of the open device, before the first read and after the last.
	Verify func(*os.File) error
	// Progress is called after each chunk of 4 MiB, on the same goroutine; it may be nil.
	// An error ends the proof.
	Progress func(disk.BlankProof) error
}

// ProveBlank reads a device from b.From on until it has read every byte or found one that is
// not zero. It reads past the page cache at idle I/O priority, takes 512 KiB of memory, does not
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
		set, err := d.firstSet(stretch{proof.Done, proof.Done + n})
		if err != nil {
			return proof, err
		}
		if set >= 0 {
			proof.Done, proof.Found = set, true
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

// readPiece is how much a proof reads at a time. It is less than chunk, since several devices are
// read at a time, and memory that was never read into takes none.
const readPiece = 512 * kib

// firstSet returns the offset of the first byte in a stretch that is not zero; -1 if all are.
func (d *device) firstSet(s stretch) (int64, error) {
	for at := s.from; at < s.to; at += readPiece {
		n := min(readPiece, s.to-at)
		if err := d.read(at, n); err != nil {
			return 0, err
		}
		if i := firstSet(d.buf[:n]); i >= 0 {
			return at + int64(i), nil
		}
	}
	return -1, nil
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

// writes detects whether a device was written to, by the kernel's own counters. A write to a
// whole disk is not counted for its partitions, and a write to the file behind a loop device
// is not counted for that.
type writes struct {
	d     *device
	stat  *os.File
	buf   [512]byte
	boot  string
	seq   string
	inode uint64
	first counters
}

// counters are those of /sys/block/DISK/stat that matter here, in sectors of 512 bytes. A
// flush counts as a write of no sectors, so requests are not compared.
type counters struct{ read, written, discarded uint64 }

// watchWrites begins to watch an open device.
func watchWrites(sys string, d *device) (*writes, error) {
	w := &writes{d: d}
	err := w.open(sys)
	if err != nil {
		return nil, fmt.Errorf("find the counters of %s: %w", d.path, err)
	}
	// Earlier writes that are still in the page cache count as written before.
	if err = d.file.Sync(); err == nil {
		w.first, err = w.read()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *writes) open(sys string) error {
	var device, folder unix.Stat_t
	if err := unix.Fstat(w.d.fd(), &device); err != nil {
		return err
	}
	at, err := sysfs.Block(sys, sysfs.Number(device.Rdev))
	if err != nil {
		return err
	}
	if err := unix.Stat(string(at), &folder); err != nil {
		return err
	}
	w.inode = folder.Ino
	whole, _, err := at.Disk()
	if err != nil {
		return err
	}
	if counting, err := whole.Attribute("queue/iostats"); err == nil && strings.TrimSpace(counting) == "0" {
		return notCounted(w.d.path, "its queue/iostats in sysfs is 0: set it to 1")
	}
	seq, err := whole.Attribute("diskseq") // since Linux 5.15
	if err != nil {
		return err
	}
	w.seq = strings.TrimSpace(seq)
	if w.boot, err = sysfs.BootID(); err != nil {
		return err
	}
	w.stat, err = os.Open(filepath.Join(string(at), "stat"))
	return err
}

func notCounted(path, why string) error {
	return disk.Problemf(disk.Unreadable, "%s cannot be proven to be blank, because the kernel does not count its requests (%s)", path, why)
}

func (w *writes) close() { _ = w.stat.Close() }

// state is what changes with each write, with the device and with the node's start. The
// folder in sysfs is another inode when the device is attached again, also where the
// kernel does not number disks.
func (w *writes) state() string {
	c := w.first
	return fmt.Sprintf("%s/%s/%d/%d/%d", w.boot, w.seq, w.inode, c.written, c.discarded)
}

// same returns disk.ErrBlankProofVoid if the device was written to since watchWrites. It
// does not allocate.
func (w *writes) same() error {
	now, err := w.read()
	if err != nil {
		return err
	}
	now.read = w.first.read
	if now != w.first {
		return disk.ErrBlankProofVoid
	}
	return nil
}

// unchanged is same for the end of a proof that has read so many bytes: it first writes back
// what others wrote to the page cache, and verifies that requests were counted at all.
func (w *writes) unchanged(bytes int64) error {
	if err := w.d.file.Sync(); err != nil {
		return err
	}
	if err := w.same(); err != nil {
		return err
	}
	now, err := w.read()
	if err != nil {
		return err
	}
	if now.read-w.first.read < uint64(bytes)/512 {
		return notCounted(w.d.path, "its driver does not")
	}
	return nil
}

func (w *writes) read() (counters, error) {
	n, err := unix.Pread(int(w.stat.Fd()), w.buf[:], 0)
	if err != nil {
		return counters{}, fmt.Errorf("read the counters of %s: %w", w.d.path, err)
	}
	// Documentation/block/stat.rst; discards since Linux 4.18.
	var fields [14]uint64
	found := parseFields(w.buf[:n], fields[:])
	if found < 11 {
		return counters{}, fmt.Errorf("read the counters of %s: there are %d", w.d.path, found)
	}
	return counters{read: fields[2], written: fields[6], discarded: fields[13]}, nil
}

// parseFields parses decimal numbers separated by blanks, and returns how many it found.
func parseFields(text []byte, into []uint64) int {
	found, digits := 0, false
	for _, c := range text {
		switch digit := c >= '0' && c <= '9'; {
		case digit && digits:
			into[found-1] = into[found-1]*10 + uint64(c-'0')
		case digit && found == len(into):
			return found
		case digit:
			into[found], digits = uint64(c-'0'), true
			found++
		default:
			digits = false
		}
	}
	return found
}
