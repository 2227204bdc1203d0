// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

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
			errs = append(errs, a.loop.close())
		}
	}
	n.disks = nil
	return errors.Join(errs...)
}
