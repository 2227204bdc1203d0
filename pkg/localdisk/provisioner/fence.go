// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
)

// removeLinks removes the links of all volumes that the node has a record of: the devices were
// not watched while the provisioner was stopped. A link is added again after its device was
// verified.
func (p *Provisioner) removeLinks(ctx context.Context) error {
	var failed error
	for _, record := range p.Records.All() {
		if record.Volume == "" || record.Kind == disk.Mount || record.Kind == disk.Directory {
			continue
		}
		if err := p.Fence.RemoveLink(disk.LinkPath(record.Key.Class, record.Volume)); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return fmt.Errorf("remove the links of the former provisioner: %w", failed)
	}
	klog.FromContext(ctx).V(4).Info("Removed unverified links", "folder", disk.LinkFolder)
	return nil
}

// recordFilesystem records which file system is on the volume's device.
func (p *Provisioner) recordFilesystem(ctx context.Context, g *gathered) error {
	record, format := *g.VolumeRecord, g.Superblock.Format
	record.Filesystem = &format
	if err := p.Records.Put(record); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Recorded the file system of a volume", logkeys.Volume, klog.KRef("", g.Volume.Name), "path", g.Path, "filesystem", format)
	return nil
}

func (p *Provisioner) addLink(ctx context.Context, g *gathered) error {
	if err := p.Fence.AddLink(g.Volume.Link, *g.Fact); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Added the link of a volume's device", logkeys.Volume, klog.KRef("", g.Volume.Name), "link", g.Volume.Link, "device", g.Fact.Device)
	return nil
}

func (p *Provisioner) removeLink(ctx context.Context, g *gathered, d decide.Decision) error {
	if err := p.Fence.RemoveLink(g.Volume.Link); err != nil {
		return err
	}
	reason := disk.Reason("")
	if d.Problem != nil {
		reason = d.Problem.Reason
	}
	klog.FromContext(ctx).V(2).Info("Removed the link of a volume's device", logkeys.Volume, klog.KRef("", g.Volume.Name), "link", g.Volume.Link, logkeys.Reason, reason)
	return nil
}

// removeLinkOf removes the link of a volume that does not exist any more. Such a volume has a
// link only if its finalizer was removed by hand.
func (p *Provisioner) removeLinkOf(volume *corev1.PersistentVolume) {
	v, ours := p.volumes.read(p.current(), volume)
	if !ours || v.Link == "" {
		return
	}
	if err := p.Fence.RemoveLink(v.Link); err != nil {
		utilruntime.HandleError(fmt.Errorf("remove the link of the deleted volume %s: %w", v.Name, err))
	}
}
