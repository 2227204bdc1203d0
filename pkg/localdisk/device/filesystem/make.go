// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filesystem makes file systems on devices, and mounts them for all of the node.
package filesystem

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"stowage.dev/stowage/pkg/localdisk/device/command"
	"stowage.dev/stowage/pkg/localdisk/device/superblock"
	"stowage.dev/stowage/pkg/localdisk/device/wipe"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// inherited is the path of the first of exec.Cmd.ExtraFiles in the command's process: what mkfs
// writes to is the device that was verified, whatever its name leads to meanwhile.
const inherited = "/proc/self/fd/3"

// arguments are those of mkfs; nil for an unknown type. mkfs must replace what an interrupted one
// has left, and need not discard: the disk is blank.
func arguments(format disk.Format) []string {
	switch format.Type {
	case "ext2", "ext3", "ext4":
		return []string{"-q", "-F", "-E", "nodiscard", "-U", format.UUID, inherited}
	case "xfs":
		return []string{"-q", "-f", "-K", "-m", "uuid=" + format.UUID, inherited}
	default:
		return nil
	}
}

// Make makes a file system with an empty folder disk.MountedFolder on the device at a path, and
// returns when both are on the disk. Unless the device is blank, or holds what an interrupted Make
// has left, the error is a *disk.Problem, NotEmpty, and nothing is written; without a mkfs it is
// MkfsMissing. verify is called with the open device before each use of it.
//
// After an error the device may have a superblock of the format: mkfs may write it before the
// rest.
func Make(ctx context.Context, path string, format disk.Format, verify func(*os.File) error) error {
	args := arguments(format)
	if args == nil || format.UUID == "" {
		return fmt.Errorf("make a file system on %s: unknown format %s", path, format)
	}
	tool, err := exec.LookPath("mkfs." + format.Type)
	if err != nil {
		return disk.Problemf(disk.MkfsMissing,
			"the provisioner has no mkfs.%s: use an image that has it, as docs/provisioner.md describes, or set mount of the class to Kubelet", format.Type)
	}
	node, err := wipe.OpenNode(path)
	if err != nil {
		return err
	}
	defer node.Close()
	found, err := superblock.Read(ctx, path, verify)
	if err != nil {
		return err
	}
	if interrupted := (&disk.Record{Formatting: &format}).Interrupted(found); !found.Blank() && !interrupted {
		return disk.Problemf(disk.NotEmpty, "%s holds %s, so no file system is made on it", path, found.Holds())
	}
	if err := verify(node); err != nil {
		return err
	}
	cmd := exec.Command(tool, args...) //nolint:noctx // command.Run ends it with ctx
	cmd.ExtraFiles = []*os.File{node}
	if err := command.Run(ctx, cmd); err != nil {
		return disk.Problemf(disk.MkfsFailed, "make a file system on %s: %v", path, err)
	}
	if err := makeFolder(path, format, verify); err != nil {
		return err
	}
	if err := flush(node); err != nil {
		return fmt.Errorf("flush %s: %w", path, err)
	}
	if found, err = superblock.Read(ctx, path, verify); err == nil && found.Format != format {
		err = disk.Problemf(disk.MkfsFailed, "%s has made %s on %s, not %s", tool, found.Holds(), path, format)
	}
	return err
}

// flush writes what the kernel has not written of a device yet. node is only its path (O_PATH).
func flush(node *os.File) error {
	device, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", node.Fd()))
	if err != nil {
		return err
	}
	defer device.Close()
	return device.Sync()
}
