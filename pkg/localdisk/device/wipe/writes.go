// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

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
	if err := w.open(sys); err != nil {
		w.close()
		return nil, fmt.Errorf("find the counters of %s: %w", d.path, err)
	}
	// Earlier writes that are still in the page cache count as written before.
	if err := d.file.Sync(); err != nil {
		w.close()
		return nil, err
	}
	var err error
	if w.first, err = w.read(); err != nil {
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

func (w *writes) close() {
	if w.stat != nil {
		_ = w.stat.Close()
	}
}

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
		switch {
		case c < '0' || c > '9':
			if digits {
				found++
			}
			digits = false
		case found == len(into):
			return found
		default:
			if !digits {
				into[found] = 0
			}
			into[found], digits = into[found]*10+uint64(c-'0'), true
		}
	}
	if digits {
		found++
	}
	return found
}
