// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/ioctl"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// device is an open block device that is read and written past the page cache. Its buffer is
// shared: it is not safe for concurrent use.
type device struct {
	file *os.File
	path string
	// bytes is the kernel's size; size is what of it can be read and written: whole sectors.
	bytes, size int64
	sector      int64
	buf         []byte // of chunk bytes, aligned to pages
}

// openDevice opens a block device, and never anything else. With O_EXCL, a device that is
// mounted, used as swap or part of another device is disk.VolumeInUse.
func openDevice(path string, flags int) (*device, error) {
	node, err := OpenNode(path)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", node.Fd()), flags|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, openProblem(path, flags, err)
	}
	d := &device{file: os.NewFile(uintptr(fd), path), path: path}
	if err := d.measure(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// OpenNode opens the node of a block device with O_PATH, which does not access the device.
func OpenNode(path string) (*os.File, error) {
	node, err := os.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("find device: %w", err)
	}
	info, err := node.Stat()
	if err == nil && info.Mode()&(os.ModeDevice|os.ModeCharDevice) != os.ModeDevice {
		err = disk.Problemf(disk.SpecialFile, "%s is not a block device", path)
	}
	if err != nil {
		_ = node.Close()
		return nil, err
	}
	return node, nil
}

func openProblem(path string, flags int, err error) error {
	refused := errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
	switch {
	case errors.Is(err, unix.EBUSY):
		return disk.Problemf(disk.VolumeInUse, "%s is in use: mounted, swapped to, or part of another device", path)
	case refused && flags&unix.O_ACCMODE != unix.O_RDONLY:
		return disk.Problemf(disk.ReadOnly, "%s cannot be opened for writing: %v", path, err)
	default:
		return fmt.Errorf("open device %s: %w", path, err)
	}
}

// measure finds the sizes, and makes the buffer.
func (d *device) measure() error {
	var err error
	if d.bytes, err = d.file.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("find the size of %s: %w", d.path, err)
	}
	sector, err := unix.IoctlGetInt(d.fd(), unix.BLKSSZGET)
	if err != nil {
		return fmt.Errorf("find the sector size of %s: %w", d.path, err)
	}
	d.sector = int64(sector)
	if d.sector < 512 || d.sector > pageSize || d.sector&(d.sector-1) != 0 {
		return fmt.Errorf("find the sector size of %s: the kernel reports %d", d.path, sector)
	}
	// A partial sector at the end is not accessible.
	d.size = d.bytes &^ (d.sector - 1)
	if d.size == 0 {
		return disk.Problemf(disk.NoCapacity, "%s has no bytes", d.path)
	}
	d.buf, err = unix.Mmap(-1, 0, int(chunk), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("make a buffer for %s: %w", d.path, err)
	}
	return nil
}

// verify verifies the device's identity and its size.
func (d *device) verify(identity func(*os.File) error, bytes int64) error {
	if err := identity(d.file); err != nil {
		return fmt.Errorf("verify identity: %w", err)
	}
	if d.bytes != bytes {
		return disk.Problemf(disk.Grown, "%s has %d bytes, not %d", d.path, d.bytes, bytes)
	}
	return nil
}

func (d *device) fd() int { return int(d.file.Fd()) }

func (d *device) close() {
	if d.buf != nil {
		_ = unix.Munmap(d.buf)
		d.buf = nil
	}
	_ = d.file.Close() // what was written is on the disk by flush, or not promised
}

// read fills the first n bytes of the buffer. Offset and n are whole sectors.
func (d *device) read(at, n int64) error {
	done, err := d.file.ReadAt(d.buf[:n], at)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("at byte %d: %w", at+int64(done), err)
	}
	return nil
}

// write writes the first n bytes of the buffer. Offset and n are whole sectors.
func (d *device) write(at, n int64) error {
	done, err := d.file.WriteAt(d.buf[:n], at)
	if err != nil {
		return fmt.Errorf("at byte %d: %w", at+int64(done), err)
	}
	return nil
}

// ReadAt is an io.ReaderAt for an image, for whole sectors. It overwrites the buffer.
func (d *device) ReadAt(p []byte, at int64) (int, error) {
	if len(p) > len(d.buf) {
		return 0, fmt.Errorf("read %s: %d bytes are more than the buffer has", d.path, len(p))
	}
	n, err := d.file.ReadAt(d.buf[:len(p)], at)
	return copy(p, d.buf[:n]), err
}

// flush writes the device's cache, and drops the kernel's cache of the device.
func (d *device) flush() error {
	if err := d.file.Sync(); err != nil {
		return err
	}
	// Without the right to do this, EACCES is ignored: no guarantee depends on it.
	if err := unix.IoctlSetInt(d.fd(), unix.BLKFLSBUF, 0); err != nil && !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("flush %s: %w", d.path, err)
	}
	return nil
}

// partition reports whether the device is part of another one.
func (d *device) partition() (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd(), &st); err != nil {
		return false, fmt.Errorf("stat device %s: %w", d.path, err)
	}
	device, err := sysfs.Block("/sys", sysfs.Number(st.Rdev))
	if err != nil {
		return false, fmt.Errorf("determine whether %s is a partition: %w", d.path, err)
	}
	_, partition, err := device.Disk()
	return partition, err
}

// rangeIoctl calls one of the ioctls that take a range: first byte and length.
func (d *device) rangeIoctl(request uint, s stretch) error {
	span := [2]uint64{uint64(s.from), uint64(s.to - s.from)}
	return ioctl.Call(d.fd(), request, unsafe.Pointer(&span))
}
