// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// loop is a file as a block device. The kernel removes it when it is no longer open or
// mounted: no loop device outlives this process and its nodes.
type loop struct {
	path string // of the device
	file *os.File
}

// newLoop makes a block device of a file.
func newLoop(backing string) (*loop, error) {
	file, err := os.OpenFile(backing, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		l, err := configure(fmt.Sprintf("/dev/loop%d", number), file, backing)
		if !errors.Is(err, unix.EBUSY) { // another process was faster
			return l, err
		}
	}
}

func configure(path string, file *os.File, name string) (*loop, error) {
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
	copy(config.Info.File_name[:len(config.Info.File_name)-1], name)
	if err := unix.IoctlLoopConfigure(int(device.Fd()), &config); err != nil {
		_ = device.Close() // nothing was written
		return nil, fmt.Errorf("make %s a device for %s: %w", path, name, err)
	}
	return &loop{path: path, file: device}, nil
}

// close closes the device, which is removed with its last user.
func (l *loop) close() error { return l.file.Close() }
