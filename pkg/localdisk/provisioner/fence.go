// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
)

// fencePeriod is the most time between two checks of a device that a claim may be mounted
// from: no event reports what is written to a device that is not mounted. It is one read of
// 72 KiB for each such device, whatever pods do.
const fencePeriod = 30 * time.Second

// removeLinks removes the links of all volumes that the node has a record of. Whatever
// happened to the devices since the links were made, nobody watched: they are made again
// when it is proven that they may be.
func (a *Agent) removeLinks(ctx context.Context) error {
	var failed error
	for _, record := range a.Records.All() {
		if record.Volume == "" || record.Kind == disk.Mount || record.Kind == disk.Directory {
			continue
		}
		if err := a.Fence.RemoveLink(disk.LinkPath(record.Key.Class, record.Volume)); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return fmt.Errorf("remove the links of earlier: %w", failed)
	}
	klog.FromContext(ctx).V(4).Info("Removed the links that were not proven", "folder", disk.LinkFolder)
	return nil
}

// linkOf is what a volume's link leads to; empty if there is none. A link that cannot be
// read is taken for one that leads elsewhere, so that it is replaced or removed.
func (a *Agent) linkOf(v *disk.Volume) string {
	if v.Link == "" {
		return ""
	}
	target, err := a.Fence.LinkTarget(v.Link)
	if err != nil {
		return "?"
	}
	return target
}

// readSuperblock finds out what is on a volume's device. That it cannot be read is an
// answer.
func (a *Agent) readSuperblock(ctx context.Context, g *gathered) learned {
	known := g.learned()
	found, err := a.superblockOf(ctx, g)
	if err != nil {
		found = disk.Superblock{Problem: unanswered(err)}
	}
	known.superblock = &found
	return known
}

func (a *Agent) superblockOf(ctx context.Context, g *gathered) (disk.Superblock, error) {
	found, err := ask(ctx, &a.asking, g.path, g.conf.ProbeTimeout, func(ctx context.Context) (disk.Superblock, error) {
		return a.Fence.ReadSuperblock(ctx, *g.Fact)
	})
	if err != nil {
		return found, fmt.Errorf("read the superblock of %s: %w", g.path, err)
	}
	return found, nil
}

// filesystemOf is Record.Filesystem of a disk that is about to be published.
func (a *Agent) filesystemOf(ctx context.Context, g *gathered, mode disk.Mode) (*disk.Format, error) {
	if g.Fact.Kind != disk.Device || mode != disk.Filesystem {
		return nil, nil
	}
	found, err := a.superblockOf(ctx, g)
	if err != nil || found.Other != "" {
		return nil, err
	}
	return &found.Format, nil
}

// recordFilesystem writes to the record what is on the volume's device.
func (a *Agent) recordFilesystem(ctx context.Context, g *gathered) error {
	record, format := *g.VolumeRecord, g.Superblock.Format
	record.Filesystem = &format
	if err := a.Records.Put(record); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Recorded the file system of a volume", logkeys.Volume, klog.KRef("", g.Volume.Name), "path", g.path, "filesystem", format)
	return nil
}

func (a *Agent) addLink(ctx context.Context, g *gathered) error {
	if err := a.Fence.AddLink(g.Volume.Link, *g.Fact); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Linked a volume's device", logkeys.Volume, klog.KRef("", g.Volume.Name), "link", g.Volume.Link, "device", g.Fact.Device)
	return nil
}

func (a *Agent) removeLink(ctx context.Context, g *gathered, d decide.Decision) error {
	if err := a.Fence.RemoveLink(g.Volume.Link); err != nil {
		return err
	}
	reason := disk.Reason("")
	if d.Problem != nil {
		reason = d.Problem.Reason
	}
	klog.FromContext(ctx).V(2).Info("Removed the link of a volume's device", logkeys.Volume, klog.KRef("", g.Volume.Name), "link", g.Volume.Link, logkeys.Reason, reason)
	return nil
}

// fenceRecheck is how long at most a device goes without being read, since what may happen
// to it is no event; zero if events will do. A volume without a claim is read when it gets
// one, and a mounted device is not formatted.
func fenceRecheck(g *gathered) time.Duration {
	v := g.Volume
	if v == nil || v.Link == "" || v.Mode != disk.Filesystem || !v.Claimed || v.Deleting || v.Phase == disk.PhaseReleased ||
		g.Fact == nil || g.Fact.Identity == "" || g.Fact.Mounted() && g.Link != "" {
		return 0
	}
	return fencePeriod
}
