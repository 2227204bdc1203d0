// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/superblock"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// ReadSuperblock reads which file system is on a device, after verifying its identity.
func (h *Host) ReadSuperblock(ctx context.Context, device disk.Fact) (disk.Superblock, error) {
	return superblock.Read(ctx, device.Device, func(file *os.File) error { return h.verifyDevice(file, device) })
}

// LinkTarget returns the target of a link of disk.LinkFolder; empty if there is no link.
func (h *Host) LinkTarget(link string) (string, error) { return h.links.Target(link) }

// AddLink points a link of disk.LinkFolder to a device, after verifying its identity.
func (h *Host) AddLink(link string, device disk.Fact) error {
	node, err := os.OpenFile(device.Device, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("find %s: %w", device.Device, err)
	}
	defer node.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(node.Fd()), &stat); err != nil {
		return fmt.Errorf("examine %s: %w", device.Device, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return disk.Problemf(disk.SpecialFile, "%s is not a block device", device.Device)
	}
	if err := h.verifyDevice(node, device); err != nil {
		return err
	}
	return h.links.Put(link, device.Device)
}

// RemoveLink removes a link of disk.LinkFolder, if it is there.
func (h *Host) RemoveLink(link string) error { return h.links.Remove(link) }
