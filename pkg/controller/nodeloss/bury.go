// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

// bury writes a tombstone of the volume into its node's report, which is made if there
// is none.
func (c *Controller) bury(ctx context.Context, g *gathered) error {
	stone := tombstone(g)
	report, err := c.Reports.Get(ctx, g.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		report = &stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: g.node},
			Spec:       stowage.LocalDiskReportSpec{NodeName: g.node, Page: 1},
		}
		erect(report, stone)
		_, err = c.Reports.Create(ctx, report, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return errAgain
		}
		return settle("create LocalDiskReport "+g.node, err)
	}
	if err != nil {
		return unavailable("get LocalDiskReport "+g.node, err)
	}
	if report.Spec.NodeName != g.node || report.Spec.Page != 1 {
		return fmt.Errorf("write a tombstone to LocalDiskReport %s: it is page %d of node %s", report.Name, report.Spec.Page, report.Spec.NodeName)
	}
	erect(report, stone)
	_, err = c.Reports.Update(ctx, report, metav1.UpdateOptions{})
	return settle("update LocalDiskReport "+g.node, err)
}

// erect adds a tombstone, in the place of an older one of the same disk.
func erect(report *stowage.LocalDiskReport, stone stowage.Tombstone) {
	stones := slices.DeleteFunc(slices.Clone(report.Spec.Tombstones), func(t stowage.Tombstone) bool { return t.Identity == stone.Identity })
	stones = append(stones, stone)
	report.Spec.Tombstones = stones
	metav1.SetMetaDataLabel(&report.ObjectMeta, wellknown.TombstonesLabel, wellknown.TombstonesValue)
}

// tombstone is that of the volume.
func tombstone(g *gathered) stowage.Tombstone {
	v := g.volume
	generation, err := strconv.ParseInt(v.Annotations[wellknown.GenerationAnnotation], 10, 64)
	if err != nil || generation < 0 {
		generation = localpv.FirstGeneration
	}
	since := metav1.NewTime(g.Now)
	stone := stowage.Tombstone{
		Identity: v.Annotations[wellknown.DiskIdentityAnnotation], Class: v.Spec.StorageClassName, Volume: v.Name, VolumeUID: string(v.UID),
		Generation: generation, State: stowage.TombstonePublished, Since: &since,
	}
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		stone.State = stowage.TombstoneRetained
	}
	if local, problem := localpv.VolumeOf(v, nil); problem == nil {
		stone.Name = local.Key.Name
	}
	if g.Release != nil && g.Release.ClaimUID == g.Volume.ClaimUID {
		at := metav1.NewTime(g.Release.At)
		stone.Released = &at
	}
	return stowage.Tombstones([]stowage.Tombstone{stone})[0]
}

// sweeps takes tombstones away that have nothing to say any more, whenever that may
// have become so, and from time to time reports, until ctx ends.
func (c *Controller) sweeps(ctx context.Context) {
	ticker := time.NewTicker(sweepPeriod)
	defer ticker.Stop()
	for whole := true; ; {
		c.reportDuplicates()
		for _, object := range c.ReportInformer.GetStore().List() {
			report, ok := object.(*stowage.LocalDiskReport)
			if !ok {
				continue
			}
			if err := c.tidy(ctx, report, whole); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Cannot take away what is settled, and will try again", "report", report.Name)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			whole = true
		case <-c.sweep:
			whole = false
		}
	}
}

// tidy takes settled tombstones off a report, or takes it away whole if that is to be.
func (c *Controller) tidy(ctx context.Context, report *stowage.LocalDiskReport, whole bool) error {
	switch {
	case len(report.Spec.Tombstones) > 0:
		return c.sweepReport(ctx, report)
	case whole && c.spentReport(report, time.Now()):
		return c.collect(ctx, report)
	default:
		return nil
	}
}

func (c *Controller) askSweep() {
	select {
	case c.sweep <- struct{}{}:
	default:
	}
}

// sweepReport takes settled tombstones off a report, if it is still as it was shown.
func (c *Controller) sweepReport(ctx context.Context, shown *stowage.LocalDiskReport) error {
	report := shown.DeepCopy()
	report.Spec.Tombstones = slices.DeleteFunc(report.Spec.Tombstones, func(t stowage.Tombstone) bool { return c.settled(t, report.Spec.NodeName) })
	removed := len(shown.Spec.Tombstones) - len(report.Spec.Tombstones)
	switch {
	case removed == 0:
		return nil
	case c.DryRun():
		if c.first(shown.Name, strconv.Itoa(removed)) {
			klog.FromContext(ctx).V(2).Info("Would take tombstones away whose disks were cleaned", logkeys.Node, klog.KRef("", report.Spec.NodeName), "removed", removed)
		}
		return nil
	}
	if len(report.Spec.Tombstones) == 0 {
		delete(report.Labels, wellknown.TombstonesLabel)
	}
	_, err := c.Reports.Update(ctx, report, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err):
		c.askSweep() // the informer will show what has changed
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return unavailable("update LocalDiskReport "+report.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Took tombstones away whose disks were cleaned", logkeys.Node, klog.KRef("", report.Spec.NodeName), "removed", removed)
	metrics.CountTombstonesRemoved(removed)
	return nil
}

// settled says whether a tombstone in the report of a node has nothing to say any more.
func (c *Controller) settled(t stowage.Tombstone, home string) bool {
	grave := rules.Grave{Identity: t.Identity, VolumeUID: t.VolumeUID, Retained: t.State == stowage.TombstoneRetained}
	if t.Since != nil {
		grave.Since = t.Since.Time
	}
	objects, err := c.volumes.GetIndexer().ByIndex(byIdentity, t.Identity)
	if err != nil {
		return false
	}
	var volumes []rules.Offered
	for _, object := range objects {
		volume, ok := object.(*corev1.PersistentVolume)
		if !ok || !ours(volume) {
			continue
		}
		node := volume.Annotations[wellknown.NodeNameAnnotation]
		_, err := c.nodes.Get(node)
		volumes = append(volumes, rules.Offered{
			Identity: t.Identity, UID: string(volume.UID), Created: volume.CreationTimestamp.Time,
			Elsewhere: c.elsewhere(t.Identity, node) != "", Shown: node == home || c.shows(node, volume.Name, t.Identity),
			Deleting: volume.DeletionTimestamp != nil, Lost: err != nil || volume.Annotations[wellknown.LostAnnotation] != "",
		})
	}
	return rules.Settled(grave, volumes)
}

// shows says whether the report of a node has a disk with a volume. That there is the volume
// says less: one that somebody made by hand, or an agent of a disk that it has not, would
// take the tombstone away.
func (c *Controller) shows(node, volume, identity string) bool {
	for page := int32(1); page <= stowage.MaxPages; page++ {
		report := c.page(node, page)
		if report == nil {
			return false
		}
		for i := range report.Status.Entries {
			if entry := &report.Status.Entries[i]; entry.Volume == volume && entry.Identity == identity {
				return true
			}
		}
	}
	return false
}
