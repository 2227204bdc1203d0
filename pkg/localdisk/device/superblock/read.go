// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package superblock

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/wipe"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Read reads, past the page cache, what is on the block device at a path, which may be
// mounted. verify is called with the open device before it is read, to verify its identity. If
// no file system is found, the whole device is searched for the signatures of wipe.Inspect, so
// that Blank is never reported for what blkid knows.
//
// The call may hang for as long as the device does.
func Read(ctx context.Context, path string, verify func(device *os.File) error) (disk.Superblock, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return disk.Superblock{}, fmt.Errorf("open %s: %w", path, err)
	}
	device := os.NewFile(uintptr(fd), path)
	defer func() { _ = device.Close() }() // nothing was written
	if err := verify(device); err != nil {
		return disk.Superblock{}, err
	}
	image, err := begin(int(device.Fd()))
	if err != nil {
		return disk.Superblock{}, fmt.Errorf("read the superblock of %s: %w", path, err)
	}
	found := Parse(image)
	if !found.Blank() {
		return found, nil
	}
	content, what, err := wipe.Inspect(ctx, path, disk.Filesystem)
	switch {
	case err != nil:
		return disk.Superblock{}, err
	case content != disk.ContentNone:
		return disk.Superblock{Other: what}, nil
	default:
		return disk.Superblock{}, nil
	}
}

// begin reads the first Size bytes of a device, or all if it has fewer.
func begin(fd int) ([]byte, error) {
	buffer, err := unix.Mmap(-1, 0, Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON) // aligned, as O_DIRECT requires
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(buffer) }()
	done := 0
	for done < len(buffer) {
		n, err := unix.Pread(fd, buffer[done:], int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		}
		if done += n; n == 0 || n%512 != 0 {
			break
		}
	}
	return append([]byte(nil), buffer[:done]...), nil
}
