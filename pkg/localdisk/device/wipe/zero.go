// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// offloadChunk is the size of one request to the device: small enough that a run ends soon
// after its context, even if the disk writes the zeros.
const offloadChunk = 64 * mib

// zeroSuperblocks is fs-reset, and the end of the methods that do not leave zeros.
func (r *run) zeroSuperblocks(ctx context.Context, d *device) error {
	for _, s := range superblocks(d.size) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := writeZeros(d, s); err != nil {
			return err
		}
	}
	return nil
}

// overwrite is dd-zero and shred.
func (r *run) overwrite(ctx context.Context, d *device) error {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	random := rand.NewChaCha8(seed)
	return r.sweep(ctx, d, chunk, func(pass int, s stretch) error {
		n := s.to - s.from
		if r.Method.Name == Shred && pass <= r.Method.Passes {
			_, _ = random.Read(d.buf[:n]) // never fails
		} else {
			clear(d.buf[:n])
		}
		return d.write(s.from, n)
	})
}

// discard discards the whole device.
func (r *run) discard(ctx context.Context, d *device) error {
	err := r.sweep(ctx, d, offloadChunk, func(_ int, s stretch) error {
		err := d.rangeIoctl(unix.BLKDISCARD, s)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOSYS) {
			return disk.Problemf(disk.CleanerMissing,
				"%s cannot discard blocks; use another method in this class, such as zero", r.Device)
		}
		if err != nil {
			return fmt.Errorf("discard at byte %d: %w", s.from, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.zeroSuperblocks(ctx, d)
}

// zeroer is a way to zero a stretch.
type zeroer func(d *device, s stretch) error

func punchHole(d *device, s stretch) error {
	return unix.Fallocate(d.fd(), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, s.from, s.to-s.from)
}

func zeroOut(d *device, s stretch) error { return d.rangeIoctl(unix.BLKZEROOUT, s) }

func writeZeros(d *device, s stretch) error {
	clear(d.buf)
	for at := s.from; at < s.to; at += chunk {
		if err := d.write(at, min(chunk, s.to-at)); err != nil {
			return err
		}
	}
	return nil
}

// errNotZero means that a device reported zeroing without doing it.
var errNotZero = errors.New("bytes are not zero after they were zeroed")

// zeroBy is the method zero, by several ways, from the fastest to the one that every device
// supports. When a device does not support one way, the next continues; when it only claims to,
// the next starts again.
func (r *run) zeroBy(ctx context.Context, d *device, ways []zeroer) error {
	for {
		err := r.sweep(ctx, d, offloadChunk, func(_ int, s stretch) error {
			for {
				err := ways[0](d, s)
				if err == nil {
					return d.sampleZeros(s)
				}
				if len(ways) == 1 {
					return err
				}
				ways = ways[1:]
			}
		})
		if !errors.Is(err, errNotZero) {
			return err
		}
		if len(ways) == 1 {
			return disk.Problemf(disk.CleanFailed, "%s does not keep what is written to it: %v", r.Device, err)
		}
		ways, r.Step = ways[1:], ""
	}
}

// sampleZeros reads what was zeroed back: the first and the last 4 KiB, and as much at random.
func (d *device) sampleZeros(s stretch) error {
	piece := max(int64(len(zeros)), d.sector)
	last := max(s.from, s.to-piece)
	somewhere := s.from
	if last > s.from {
		somewhere += rand.Int64N((last-s.from)/d.sector) * d.sector
	}
	for _, at := range []int64{s.from, somewhere, last} {
		n := min(piece, s.to-at)
		if err := d.read(at, n); err != nil {
			return fmt.Errorf("read %s: %w", d.path, err)
		}
		if i := firstSet(d.buf[:n]); i >= 0 {
			return fmt.Errorf("byte %d: %w", at+int64(i), errNotZero)
		}
	}
	return nil
}

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// What fs-reset zeroes at both ends. The furthest superblocks in are: from the
// start, the second LUKS2 header (4 MiB); from the end, Promise's RAID (1.5 MiB) and
// what bcachefs and LVM2 copy there (some MiB).
const ends = 8 * mib

// stretch is bytes of a device.
type stretch struct{ from, to int64 }

// superblocks returns where known formats keep superblocks and copies of them on a
// device, in order and without overlaps. Sizes and results are in bytes, and
// multiples of the sector if the size is one.
func superblocks(size int64) []stretch {
	all := []stretch{{0, ends}, {size - ends, size}}
	// The copies of btrfs: 16 KiB, times 4096 for each.
	for at := 64 * mib; at < size && at <= 256*gib; at <<= 12 {
		all = append(all, stretch{at, at + mib})
	}
	// The copies of OCFS2: 1 GiB, times 4 for each, six at most.
	for at := gib; at < size && at <= 1024*gib; at <<= 2 {
		all = append(all, stretch{at, at + mib})
	}
	return merge(all, size)
}

func merge(all []stretch, size int64) []stretch {
	for i := range all {
		all[i].from = min(max(all[i].from, 0), size)
		all[i].to = min(max(all[i].to, 0), size)
	}
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	var merged []stretch
	for _, s := range all {
		last := len(merged) - 1
		switch {
		case s.from == s.to:
		case last >= 0 && s.from <= merged[last].to:
			merged[last].to = max(merged[last].to, s.to)
		default:
			merged = append(merged, s)
		}
	}
	return merged
}
