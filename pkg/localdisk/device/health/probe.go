// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// block is how many bytes a read reads.
const block = 4096

// read is a read of a disk in progress.
type read struct {
	began time.Time
	// done is what the disk had completed when it began.
	done   uint64
	result chan []disk.Sign
}

func (r *read) ended() bool { return len(r.result) > 0 }

// stall is since when the kernel has requests to a device that are not answered.
type stall struct {
	done  [2]uint64 // reads, writes
	since [2]time.Time
}

// probe returns what the last read of a disk found, begins another, and returns a sign if
// requests are not answered.
func (r *Reader) probe(t *target, hungAfter time.Duration) []disk.Sign {
	if len(t.devices) == 0 {
		return nil
	}
	now := time.Now()
	var done uint64
	hung := ""
	for _, d := range t.devices {
		completed, waiting := r.stalled(&d, now)
		done += completed
		if waiting >= hungAfter && hung == "" {
			hung = d.path
		}
	}
	var signs []disk.Sign
	last := r.reads[t.Identity]
	switch {
	case last != nil && last.ended():
		signs = <-last.result
		delete(r.reads, t.Identity)
	case last != nil && last.done != done: // others are answered
		last.began, last.done = now, done
	case last != nil && now.Sub(last.began) >= hungAfter && hung == "":
		hung = t.devices[0].path
	}
	if !t.Probe {
		return signs
	}
	if r.reads[t.Identity] == nil {
		next := &read{began: now, done: done, result: make(chan []disk.Sign, 1)}
		r.reads[t.Identity] = next
		examined, smart := *t, now.Sub(r.smart[t.Identity]) >= smartPeriod
		if smart {
			r.smart[t.Identity] = now
		}
		go func() { next.result <- examined.examine(smart) }()
	}
	if hung != "" {
		signs = append(signs, disk.Sign{Reason: disk.Hung, Message: fmt.Sprintf("%s did not answer requests for %s", hung, hungAfter)})
	}
	return signs
}

// stalled returns how many requests a device has completed, and for how long its reads or its
// writes, of which there are some, have been unanswered.
func (r *Reader) stalled(d *device, now time.Time) (completed uint64, waiting time.Duration) {
	stat, err1 := d.Attribute("stat")
	inflight, err2 := d.Attribute("inflight")
	fields, pending := strings.Fields(stat), strings.Fields(inflight)
	if err1 != nil || err2 != nil || len(fields) < 11 || len(pending) != 2 {
		return 0, 0
	}
	number := func(i int) uint64 {
		if i >= len(fields) {
			return 0 // kernels before 4.18 count no discards, before 5.5 no flushes
		}
		n, _ := strconv.ParseUint(fields[i], 10, 64)
		return n
	}
	done := [2]uint64{number(0), number(4) + number(11) + number(15)}
	s := r.stalls[d.number]
	if s == nil {
		s = &stall{done: done, since: [2]time.Time{now, now}}
		r.stalls[d.number] = s
	}
	for i := range done {
		if done[i] != s.done[i] || pending[i] == "0" {
			s.done[i], s.since[i] = done[i], now
		}
		waiting = max(waiting, now.Sub(s.since[i]))
	}
	return done[0] + done[1], waiting
}

// examine reads a disk and, with smart, the log of an NVMe drive.
func (t *target) examine(smart bool) []disk.Sign {
	for _, m := range t.visible {
		if m.FSType != "xfs" {
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(m.Point, &st); errors.Is(err, unix.EIO) { // nothing else shows it
			return []disk.Sign{{Reason: disk.FilesystemError, Message: "the xfs file system was shut down"}}
		}
	}
	var signs []disk.Sign
	if smart {
		for i := range t.devices {
			signs = append(signs, t.devices[i].smart()...)
		}
	}
	d := t.devices[rand.N(len(t.devices))]
	if at, err := d.readBlock(); errors.Is(err, unix.EIO) || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EREMOTEIO) || errors.Is(err, unix.EILSEQ) {
		signs = append(signs, disk.Sign{Reason: disk.DiskErrors, Source: disk.OwnRead, Message: fmt.Sprintf("the %d bytes at %d of %s cannot be read: %v", block, at, d.path, errors.Unwrap(err))})
	}
	return signs
}

// readBlock reads one block of a device at a random place, past the page cache.
func (d *device) readBlock() (at int64, err error) {
	size, err := d.Bytes("size")
	if err != nil || size < block {
		return 0, err
	}
	file, err := os.OpenFile(d.path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	buffer, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Munmap(buffer) }()
	at = rand.N(size/block) * block
	_, err = file.ReadAt(buffer, at)
	return at, err
}
