// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
)

// publishable reports whether a folder is on a file system that can be a volume.
func publishable(folder string) bool {
	path, err := filepath.Abs(folder)
	if err != nil {
		return false
	}
	if path, err = filepath.EvalSymlinks(path); err != nil || unix.Access(path, unix.W_OK) != nil {
		return false
	}
	table, err := mounts.Read("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	on, ok := table.Over(path)
	return ok && mounts.Supported(on.FSType) && !on.ReadOnly()
}

// mount mounts an ext4 on a loop device where there is a program that makes it, and a
// file system in memory elsewhere.
func (d *disks) mount(path string) error {
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		return d.mountMemory(path)
	}
	device, err := d.attach()
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }() // the mount keeps the device
	// Few inodes and no journal: little is written.
	out, err := exec.Command(mkfs, "-q", "-F", "-N", "128", "-O", "^has_journal", "-E", "nodiscard", device.Name()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make an ext4 on %s: %w\n%s", device.Name(), err, out)
	}
	return d.mountAt(device.Name(), path, "ext4", "")
}

// mountMemory mounts a file system in memory, which takes none before it is written.
func (d *disks) mountMemory(path string) error {
	return d.mountAt("tmpfs", path, "tmpfs", fmt.Sprintf("size=%d", diskBytes))
}

func (d *disks) mountAt(source, path, kind, options string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, path, kind, 0, options); err != nil {
		return fmt.Errorf("mount a %s at %s: %w", kind, path, err)
	}
	d.undo = append(d.undo, func() error {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		return err
	})
	return nil
}

// device makes a block device and links it at a path. It is there as long as this
// process has it open, so it goes with the process however that ends.
func (d *disks) device(path string) error {
	device, err := d.attach()
	if err != nil {
		return err
	}
	d.undo = append(d.undo, device.Close)
	return os.Symlink(device.Name(), path)
}

// attach attaches a new file to a loop device, which is detached when it is closed. The file has no name, and goes with the device.
func (d *disks) attach() (*os.File, error) {
	image, err := os.CreateTemp(d.folder, "image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = image.Close() }()
	if err := errors.Join(os.Remove(image.Name()), image.Truncate(diskBytes)); err != nil {
		return nil, err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	for {
		device, err := free(control)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		config := unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		copy(config.Info.File_name[:], image.Name())
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		_ = device.Close()
		if !errors.Is(err, unix.EBUSY) { // another process was faster
			return nil, fmt.Errorf("attach a file to %s: %w", device.Name(), err)
		}
	}
}

// free opens a loop device that is free at this moment.
func free(control *os.File) (*os.File, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
}
