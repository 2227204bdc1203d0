// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

// tombstoneName returns the name of the tombstone of a volume's disk.
func tombstoneName(f *volumeFacts) string {
	return stowage.TombstoneName(f.node, f.volume.Annotations[wellknown.DiskIdentityAnnotation])
}

// newTombstone returns the tombstone of the volume.
func newTombstone(f *volumeFacts) stowage.Tombstone {
	v := f.volume
	generation, err := strconv.ParseInt(v.Annotations[wellknown.GenerationAnnotation], 10, 64)
	if err != nil || generation < 0 {
		generation = localpv.FirstGeneration
	}
	tombstone := stowage.Tombstone{
		Identity: v.Annotations[wellknown.DiskIdentityAnnotation], Class: v.Spec.StorageClassName, Volume: v.Name, VolumeUID: string(v.UID),
		Generation: generation, State: stowage.TombstonePublished, Since: new(metav1.NewTime(f.Now)),
	}
	if retains(v) {
		tombstone.State = stowage.TombstoneRetained
	}
	if local, problem := localpv.VolumeOf(v, nil); problem == nil {
		tombstone.Name = local.Key.Name
	}
	if f.Release != nil && f.Release.ClaimUID == f.Volume.ClaimUID {
		tombstone.Released = new(metav1.NewTime(f.Release.At))
	}
	return tombstone
}

// isOf reports whether a tombstone is that of a volume. An administrator may have created another
// one of this name, or have set the volume's policy to Retain after the tombstone was written.
func isOf(t *stowage.LocalDiskTombstone, f *volumeFacts) bool {
	if retains(f.volume) && t.Spec.State != stowage.TombstoneRetained {
		return false
	}
	return t.Spec.NodeName == f.node && t.Spec.VolumeUID == string(f.volume.UID) && t.Spec.Identity == f.volume.Annotations[wellknown.DiskIdentityAnnotation]
}

// retains reports whether the data of a volume is kept when it is released.
func retains(volume *corev1.PersistentVolume) bool {
	return volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete
}

// hasTombstone reports whether the informer has the tombstone of the volume.
func (c *Controller) hasTombstone(f *volumeFacts) bool {
	object, _, err := c.TombstoneInformer.GetStore().GetByKey(tombstoneName(f))
	tombstone, ok := object.(*stowage.LocalDiskTombstone)
	return err == nil && ok && isOf(tombstone, f)
}

// confirmTombstone checks that the tombstone exists: an administrator may have deleted it.
func (c *Controller) confirmTombstone(ctx context.Context, f *volumeFacts) error {
	tombstone, err := c.liveTombstone(ctx, tombstoneName(f))
	if err == nil && (tombstone == nil || !isOf(tombstone, f)) {
		err = loop.ErrStale
	}
	return err
}

// liveTombstone returns a tombstone from the API server; nil if it does not exist.
func (c *Controller) liveTombstone(ctx context.Context, name string) (*stowage.LocalDiskTombstone, error) {
	return get("LocalDiskTombstone "+name, live(ctx, c.Tombstones.Get), name)
}

// addTombstone writes the tombstone of the volume. It replaces an older one of the same disk.
func (c *Controller) addTombstone(ctx context.Context, f *volumeFacts) error {
	before, err := c.liveTombstone(ctx, tombstoneName(f))
	if err != nil {
		return err
	}
	if before == nil {
		names, err := c.TombstoneInformer.GetIndexer().IndexKeys(byNode, f.node)
		if err != nil {
			return fmt.Errorf("count the tombstones of node %s: %w", f.node, err)
		}
		if len(names) >= stowage.MaxTombstones {
			return fmt.Errorf("add a tombstone of volume %s: node %s has %d already; delete those of disks that will not be used again", f.volume.Name, f.node, len(names))
		}
	}
	return c.writeTombstone(ctx, before, f.node, newTombstone(f))
}

// writeTombstone creates a tombstone, or changes the one that exists.
func (c *Controller) writeTombstone(ctx context.Context, before *stowage.LocalDiskTombstone, node string, tombstone stowage.Tombstone) error {
	spec := stowage.LocalDiskTombstoneSpec{NodeName: node, Tombstone: tombstone}
	name := stowage.TombstoneName(node, tombstone.Identity)
	if before != nil {
		changed := before.DeepCopy()
		changed.Spec = spec
		_, err := c.Tombstones.Update(ctx, changed, metav1.UpdateOptions{})
		return writeError("update LocalDiskTombstone "+name, err)
	}
	_, err := c.Tombstones.Create(ctx, &stowage.LocalDiskTombstone{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return loop.ErrStale
	}
	return writeError("create LocalDiskTombstone "+name, err)
}

// moveTombstones moves the tombstones that an earlier version wrote into a report to objects.
func (c *Controller) moveTombstones(ctx context.Context, before *stowage.LocalDiskReport) error {
	if c.Settings.DryRun {
		return nil
	}
	node := before.Spec.NodeName
	for _, tombstone := range before.Spec.Tombstones {
		existing, err := c.liveTombstone(ctx, stowage.TombstoneName(node, tombstone.Identity))
		if err == nil && (existing == nil || existing.Spec.Since.Before(tombstone.Since)) {
			err = c.writeTombstone(ctx, existing, node, tombstone)
		}
		if err != nil {
			return fmt.Errorf("move a tombstone of LocalDiskReport %s: %w", before.Name, err)
		}
	}
	report := before.DeepCopy()
	report.Spec.Tombstones = nil
	delete(report.Labels, wellknown.TombstonesLabel)
	_, err := c.Reports.Update(ctx, report, metav1.UpdateOptions{})
	if err := writeError("update LocalDiskReport "+report.Name, err); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Moved the tombstones of a report to LocalDiskTombstones", logkeys.Node, klog.KRef("", node), "moved", len(before.Spec.Tombstones))
	return nil
}

// sweepTombstones removes resolved tombstones.
func (c *Controller) sweepTombstones(ctx context.Context) (problems error) {
	for _, tombstone := range loop.List[stowage.LocalDiskTombstone](c.TombstoneInformer, "", "") {
		if c.resolved(tombstone.Spec.Tombstone, tombstone.Spec.NodeName) {
			problems = errors.Join(problems, c.deleteTombstone(ctx, tombstone))
		}
	}
	return problems
}

// deleteTombstone deletes a resolved tombstone if it has not changed.
func (c *Controller) deleteTombstone(ctx context.Context, tombstone *stowage.LocalDiskTombstone) error {
	log := klog.FromContext(ctx).V(2).WithValues(logkeys.Node, klog.KRef("", tombstone.Spec.NodeName), "tombstone", tombstone.Name)
	if c.Settings.DryRun {
		if c.notLogged("tombstone/"+tombstone.Name, "resolved") {
			log.Info("Would remove the tombstone of a cleaned disk")
		}
		return nil
	}
	err := c.Tombstones.Delete(ctx, tombstone.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &tombstone.UID, ResourceVersion: &tombstone.ResourceVersion},
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return writeError("delete LocalDiskTombstone "+tombstone.Name, err)
	}
	log.Info("Removed the tombstone of a cleaned disk")
	metrics.CountTombstonesRemoved(1)
	return nil
}

// resolved reports whether a tombstone of a disk of a node is resolved.
func (c *Controller) resolved(t stowage.Tombstone, home string) bool {
	var volumes []rules.PublishedVolume
	for _, volume := range loop.List[corev1.PersistentVolume](c.volumes, byIdentity, t.Identity) {
		if !owned(volume) {
			continue
		}
		node := volume.Annotations[wellknown.NodeNameAnnotation]
		_, err := c.nodes.Get(node)
		volumes = append(volumes, rules.PublishedVolume{
			Identity: t.Identity, UID: string(volume.UID), Created: volume.CreationTimestamp.Time,
			OnOtherNode: c.otherNode(t.Identity, node) != "", Shown: node == home || c.shows(node, volume.Name, t.Identity),
			Deleting: volume.DeletionTimestamp != nil, Lost: err != nil || volume.Annotations[wellknown.LostAnnotation] != "",
		})
	}
	return rules.Resolved(t, volumes)
}

// shows reports whether the report of a node lists a disk with a volume. The volume alone is no
// proof: a user, or a compromised provisioner, may have created it for a disk of another node.
func (c *Controller) shows(node, volume, identity string) bool {
	for report := range stowage.StoredPages(c.ReportInformer.GetStore(), node) {
		for i := range report.Status.Entries {
			if entry := &report.Status.Entries[i]; entry.Volume == volume && entry.Identity == identity {
				return true
			}
		}
	}
	return false
}
