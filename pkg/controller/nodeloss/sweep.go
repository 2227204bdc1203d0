// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/loop"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

// runSweeps removes resolved tombstones when a change may have resolved one, and periodically
// obsolete reports, until ctx ends.
func (c *Controller) runSweeps(ctx context.Context) {
	ticker := time.NewTicker(sweepPeriod)
	defer ticker.Stop()
	for periodic := true; ; {
		c.reportDuplicates()
		for _, report := range loop.List[stowage.LocalDiskReport](c.ReportInformer, "", "") {
			if err := c.sweepReport(ctx, report, periodic); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Failed to remove resolved tombstones; retrying", "report", report.Name)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			periodic = true
		case <-c.sweep:
			periodic = false
		}
	}
}

// sweepReport removes resolved tombstones from a report, or the report if it is obsolete.
func (c *Controller) sweepReport(ctx context.Context, report *stowage.LocalDiskReport, periodic bool) error {
	switch {
	case len(report.Spec.Tombstones) > 0:
		return c.removeResolved(ctx, report)
	case periodic && c.obsolete(report, time.Now()):
		return c.deleteReport(ctx, report)
	default:
		return nil
	}
}

func (c *Controller) requestSweep() {
	select {
	case c.sweep <- struct{}{}:
	default:
	}
}

// removeResolved removes resolved tombstones from a report if it has not changed.
func (c *Controller) removeResolved(ctx context.Context, before *stowage.LocalDiskReport) error {
	report := before.DeepCopy()
	report.Spec.Tombstones = slices.DeleteFunc(report.Spec.Tombstones, func(t stowage.Tombstone) bool { return c.resolved(t, report.Spec.NodeName) })
	removed := len(before.Spec.Tombstones) - len(report.Spec.Tombstones)
	switch {
	case removed == 0:
		return nil
	case c.DryRun():
		if c.notLogged(before.Name, strconv.Itoa(removed)) {
			klog.FromContext(ctx).V(2).Info("Would remove tombstones of cleaned disks", logkeys.Node, klog.KRef("", report.Spec.NodeName), "removed", removed)
		}
		return nil
	}
	if len(report.Spec.Tombstones) == 0 {
		delete(report.Labels, wellknown.TombstonesLabel)
	}
	_, err := c.Reports.Update(ctx, report, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err):
		c.requestSweep() // with what changed
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return apiError("update LocalDiskReport "+report.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Removed tombstones of cleaned disks", logkeys.Node, klog.KRef("", report.Spec.NodeName), "removed", removed)
	metrics.CountTombstonesRemoved(removed)
	return nil
}

// resolved reports whether a tombstone in the report of a node is resolved.
func (c *Controller) resolved(t stowage.Tombstone, home string) bool {
	tombstone := rules.Tombstone{Identity: t.Identity, VolumeUID: t.VolumeUID, Retained: t.State == stowage.TombstoneRetained}
	if t.Since != nil {
		tombstone.Since = t.Since.Time
	}
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
	return rules.Resolved(tombstone, volumes)
}

// shows reports whether the report of a node lists a disk with a volume. The volume alone is no
// proof: a user, or a compromised provisioner, may have created it for a disk of another node.
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

// obsoleteAfter is how long a report is kept after its last change, so that users can look up the
// disks of a removed node.
const obsoleteAfter = time.Hour

// obsolete reports whether a report is no longer needed: its node is gone, it has no volumes, and
// neither controller nor provisioner left a tombstone of a disk that may hold data.
func (c *Controller) obsolete(report *stowage.LocalDiskReport, now time.Time) bool {
	node := report.Spec.NodeName
	if _, err := c.nodes.Get(node); !apierrors.IsNotFound(err) {
		return false
	}
	if volumes, err := c.volumes.GetIndexer().IndexKeys(byNode, node); err != nil || len(volumes) > 0 {
		return false
	}
	first := c.page(node, 1)
	if first == nil && report.Spec.Page == 1 || first != nil && len(first.Spec.Tombstones)+len(first.Status.Tombstones) > 0 {
		return false
	}
	last := report.CreationTimestamp.Time
	if at := report.Status.LastTransitionTime; at != nil {
		last = at.Time
	}
	return now.Sub(last) >= obsoleteAfter
}

// deleteReport deletes an obsolete report if it has not changed.
func (c *Controller) deleteReport(ctx context.Context, report *stowage.LocalDiskReport) error {
	node := report.Spec.NodeName
	if exists, err := get("node "+node, live(ctx, c.Client.CoreV1().Nodes().Get), node); err != nil || exists != nil {
		return err // if the node exists, the informer lags behind
	}
	if c.DryRun() {
		if c.notLogged(report.Name, "gone") {
			klog.FromContext(ctx).V(2).Info("Would remove the report of a deleted node", logkeys.Node, klog.KRef("", node), "report", report.Name)
		}
		return nil
	}
	err := c.Reports.Delete(ctx, report.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &report.UID, ResourceVersion: &report.ResourceVersion},
	})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return apiError("delete LocalDiskReport "+report.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Removed the report of a deleted node", logkeys.Node, klog.KRef("", node), "report", report.Name)
	return nil
}
