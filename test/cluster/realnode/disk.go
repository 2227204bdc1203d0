// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
)

// DiskKind is how a disk appears in a node.
type DiskKind string

// The kinds of disks.
const (
	// Ext4 is a loop device with an ext4, mounted at Path and listed in fstab.
	Ext4 DiskKind = "ext4"
	// Tmpfs is a file system in memory, mounted at Path. It is empty after each boot.
	Tmpfs DiskKind = "tmpfs"
	// Block is a loop device without a file system. Path is a symbolic link to it.
	Block DiskKind = "block"
	// Directory is a plain folder of the node's root file system.
	Directory DiskKind = "directory"
)

// Disk describes a disk of a node.
type Disk struct {
	Kind DiskKind
	// Path is the disk's path in the node, such as /mnt/disks/fast/1.
	Path string
	// Size in bytes, at least 1 MiB; a directory has none. Loop devices are sparse: they use space on
	// this machine only for what is written.
	Size int64
}

func (d Disk) check() error {
	if !filepath.IsAbs(d.Path) || filepath.Clean(d.Path) != d.Path || d.Path == "/" {
		return fmt.Errorf("disk: Path must be absolute and clean, got %q", d.Path)
	}
	switch d.Kind {
	case Directory:
		return nil
	case Ext4, Tmpfs, Block:
	default:
		return fmt.Errorf("disk %s: Kind must be one of ext4, tmpfs, block and directory, got %q", d.Path, d.Kind)
	}
	if d.Size < 1<<20 {
		return fmt.Errorf("disk %s: Size must be at least 1 MiB, got %d", d.Path, d.Size)
	}
	return nil
}

// attached is a disk in a node.
type attached struct {
	Disk
	loop *os.File // the device, which is removed with its last user; nil for a disk that has none
}

// AddDisk adds a new, empty disk to the node, which may or may not run, and returns the path
// of its block device, if it has one.
func (n *Node) AddDisk(ctx context.Context, d Disk) (device string, err error) {
	if err := d.check(); err != nil {
		return "", fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.power.Lock()
	defer n.power.Unlock()
	a, err := n.attach(d)
	if err == nil && n.pid() != 0 {
		if err = n.mount(ctx, a); err == nil {
			_, err = n.Run(ctx, strings.NewReader(n.fstab()), "tee", "/etc/fstab")
		}
	}
	if err != nil {
		return "", fmt.Errorf("add disk %s to node %s: %w", d.Path, n.Name, err)
	}
	return a.device(), nil
}

// RemoveDisk removes the disk at a path from the node for good, with all data. It fails
// while the node uses it. fstab still names it, as when a disk has failed.
func (n *Node) RemoveDisk(ctx context.Context, path string) error {
	return n.change(path, func(a *attached) error {
		if err := n.unmount(ctx, a, false); err != nil {
			return fmt.Errorf("remove disk %s of node %s: %w", path, n.Name, err)
		}
		n.mu.Lock()
		n.disks = slices.DeleteFunc(n.disks, func(b *attached) bool { return a == b })
		n.mu.Unlock()
		if a.loop == nil {
			return nil
		}
		return errors.Join(a.loop.Close(), os.Remove(n.backing(a)))
	})
}

// UnmountDisk unmounts the disk at a path of a running node even if it is in use, as when its
// file system has failed; MountDisk or the next boot mounts it again.
func (n *Node) UnmountDisk(ctx context.Context, path string) error {
	return n.change(path, func(a *attached) error { return n.unmount(ctx, a, true) })
}

// MountDisk mounts a disk that UnmountDisk unmounted.
func (n *Node) MountDisk(ctx context.Context, path string) error {
	return n.change(path, func(a *attached) error { return n.mount(ctx, a) })
}

// WaitUnmounted returns when no file system of a device, such as /dev/loop0, is mounted on the running
// node. kubelet unmounts a device some time after the last pod that used it is deleted.
func (n *Node) WaitUnmounted(ctx context.Context, device string) error {
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		return fmt.Errorf("stat %s: %w", device, err)
	}
	file := fmt.Sprintf("/proc/%d/mountinfo", n.pid())
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	err := mounts.Watch(watching, file, func() {
		table, err := mounts.Read(file)
		if failed = err; err != nil || len(table.OfDevice(unix.Major(st.Rdev), unix.Minor(st.Rdev))) == 0 {
			cancel()
		}
	})
	if err := errors.Join(err, failed, ctx.Err()); err != nil {
		return fmt.Errorf("wait until node %s has unmounted %s: %w", n.Name, device, err)
	}
	return nil
}

// change calls do with the disk at a path, while the node neither starts nor is killed.
func (n *Node) change(path string, do func(*attached) error) error {
	n.power.Lock()
	defer n.power.Unlock()
	a, err := n.disk(path)
	if err != nil {
		return err
	}
	return do(a)
}

func (a *attached) device() string {
	if a.loop == nil {
		return ""
	}
	return a.loop.Name()
}

// attach makes the disk.
func (n *Node) attach(d Disk) (*attached, error) {
	if _, err := n.disk(d.Path); err == nil {
		return nil, errors.New("the path is in use")
	}
	a := &attached{Disk: d}
	if d.Kind == Ext4 || d.Kind == Block {
		if err := n.makeLoop(a); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.disks = append(n.disks, a)
	n.written = slices.DeleteFunc(n.written, func(b *attached) bool { return b.Path == a.Path })
	n.written = append(n.written, a)
	return a, nil
}

func (n *Node) makeLoop(a *attached) error {
	backing, err := os.Create(n.backing(a))
	if err != nil {
		return err
	}
	defer backing.Close()
	if err := backing.Truncate(a.Size); err != nil {
		return err
	}
	if a.Kind == Ext4 {
		if err := run(context.Background(), "", "mkfs.ext4", "-q", "-F", backing.Name()); err != nil {
			return err
		}
	}
	a.loop, err = newLoop(backing)
	return err
}

// backing is the file that is a disk's device.
func (n *Node) backing(a *attached) string {
	return n.path("disks", strings.ReplaceAll(strings.TrimPrefix(a.Path, "/"), "/", "-"))
}

func (n *Node) disk(path string) (*attached, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.IndexFunc(n.disks, func(a *attached) bool { return a.Path == path }); i >= 0 {
		return n.disks[i], nil
	}
	return nil, fmt.Errorf("node %s has no disk %s", n.Name, path)
}

// mountAll mounts or links the node's disks, as at boot.
func (n *Node) mountAll(ctx context.Context) error {
	n.mu.Lock()
	disks := n.disks
	n.mu.Unlock()
	for _, a := range disks {
		if err := n.mount(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// mount mounts or links a disk in the running node.
func (n *Node) mount(ctx context.Context, a *attached) error {
	folder := a.Path
	var then []string
	switch a.Kind {
	case Ext4:
		then = []string{"mount", "-t", "ext4", a.device(), a.Path}
	case Tmpfs:
		then = []string{"mount", "-t", "tmpfs", "-o", "size=" + strconv.FormatInt(a.Size, 10), "tmpfs", a.Path}
	case Block:
		folder = filepath.Dir(a.Path)
		then = []string{"ln", "-sfn", a.device(), a.Path}
	case Directory:
	}
	if _, err := n.Run(ctx, nil, "mkdir", "-p", folder); err != nil || then == nil {
		return err
	}
	_, err := n.Run(ctx, nil, then...)
	return err
}

// unmount unmounts or unlinks a disk; it does nothing on a node that does not run. With lazily,
// processes that have it open keep it.
func (n *Node) unmount(ctx context.Context, a *attached, lazily bool) error {
	if n.pid() == 0 {
		return nil
	}
	command := []string{"umount", a.Path}
	if lazily {
		command = []string{"umount", "--lazy", a.Path}
	}
	switch a.Kind {
	case Block:
		command = []string{"rm", "-f", a.Path}
	case Directory:
		command = []string{"rm", "-rf", a.Path}
	case Ext4, Tmpfs:
	}
	_, err := n.Run(ctx, nil, command...)
	return err
}

// fstab is the text of the node's fstab: the file systems that were added, also those that
// were removed since.
func (n *Node) fstab() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for _, a := range n.written {
		switch a.Kind {
		case Ext4:
			fmt.Fprintf(&b, "%s %s ext4 defaults 0 2\n", a.device(), a.Path)
		case Tmpfs:
			fmt.Fprintf(&b, "tmpfs %s tmpfs size=%d 0 0\n", a.Path, a.Size)
		case Block, Directory:
		}
	}
	return b.String()
}

// releaseDisks closes the block devices of a node that does not run.
func (n *Node) releaseDisks() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, a := range n.disks {
		if a.loop != nil {
			errs = append(errs, a.loop.Close())
		}
	}
	n.disks = nil
	return errors.Join(errs...)
}

// newLoop makes a block device of a file. The kernel removes it when it is no longer open or
// mounted: no loop device outlives this process and its nodes.
func newLoop(backing *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
	copy(config.Info.File_name[:len(config.Info.File_name)-1], backing.Name())
	for {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		_ = device.Close()               // nothing was written
		if !errors.Is(err, unix.EBUSY) { // another process was faster
			return nil, fmt.Errorf("make %s a device for %s: %w", device.Name(), backing.Name(), err)
		}
	}
}
