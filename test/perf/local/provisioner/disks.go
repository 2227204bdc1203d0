// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// small is the size of disks whose size does not matter.
const small = "16M"

// prepare makes a disk, except for the last step that makes it appear in its
// folder, which it returns.
func (m *machine) prepare(ctx context.Context, kind, name string) (appear func() error, err error) {
	slot := m.slot(kind, name)
	if kind == blockClass {
		device, err := m.attach(ctx, name+"-raw", small)
		if err != nil {
			return nil, err
		}
		return func() error { return os.Symlink(device, slot) }, nil
	}
	if err := os.Mkdir(slot, 0o755); err != nil {
		return nil, err
	}
	if kind == tmpfsClass {
		return func() error { return m.mount("tmpfs", slot, "tmpfs", "size="+small) }, nil
	}
	device, err := m.attach(ctx, name+"-ext4", small)
	if err != nil {
		return nil, err
	}
	if _, err := command(ctx, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device); err != nil {
		return nil, err
	}
	return func() error { return m.mount(device, slot, "ext4", "") }, nil
}

// appear makes a disk at once.
func (m *machine) appear(ctx context.Context, kind, name string) error {
	do, err := m.prepare(ctx, kind, name)
	if err != nil {
		return err
	}
	return do()
}

func (m *machine) mount(from, to, filesystem, options string) error {
	if err := unix.Mount(from, to, filesystem, 0, options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, to, err)
	}
	m.setup.later(func() error { return unmount(to) })
	return nil
}

func unmount(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// attach makes a sparse file and attaches it to a loop device, past the page cache as
// disks are.
func (m *machine) attach(ctx context.Context, name, size string) (device string, err error) {
	image := m.path("images", name)
	if _, err := command(ctx, "truncate", "--size="+size, image); err != nil {
		return "", err
	}
	device, err = command(ctx, "losetup", "--find", "--show", "--direct-io=on", image)
	if err != nil {
		return "", err
	}
	m.setup.later(func() error {
		_, err := command(context.Background(), "losetup", "--detach", device)
		return err
	})
	return device, nil
}

// command runs a program and returns its output.
func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// requests counts the reads, writes, discards and flushes that a device has done.
func requests(device string) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	var sum int64
	for _, column := range []int{0, 4, 11, 15} {
		var n int64
		if column < len(fields) {
			if _, err := fmt.Sscan(fields[column], &n); err != nil {
				return 0, fmt.Errorf("read the requests of %s: %w", device, err)
			}
		}
		sum += n
	}
	return sum, nil
}
