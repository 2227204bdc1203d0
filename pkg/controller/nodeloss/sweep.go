// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

// Keys of sweeps. Others are identities behind suspectPrefix.
const (
	sweepTombstones = "tombstones" // when a change may have resolved one
	sweepReports    = "reports"    // periodically; tombstones, too
	suspectPrefix   = "identity/"
)

// sweep removes resolved tombstones, and with sweepReports obsolete reports; or it compares the
// nodes that report an identity.
func (c *Controller) sweep(ctx context.Context, key string) (again time.Duration, problems error) {
	if identity, ok := strings.CutPrefix(key, suspectPrefix); ok {
		c.reportDuplicates(identity)
		return 0, nil
	}
	for _, report := range loop.List[stowage.LocalDiskReport](c.ReportInformer, "", "") {
		switch {
		case len(report.Spec.Tombstones) > 0:
			problems = errors.Join(problems, c.removeResolved(ctx, report))
		case key == sweepReports && c.obsolete(report, time.Now()):
			problems = errors.Join(problems, c.deleteReport(ctx, report))
		}
	}
	if key == sweepReports {
		again = sweepPeriod
	}
	return again, problems
}

// removeResolved removes resolved tombstones from a report if it has not changed.
func (c *Controller) removeResolved(ctx context.Context, before *stowage.LocalDiskReport) error {
	report := before.DeepCopy()
	report.Spec.Tombstones = slices.DeleteFunc(report.Spec.Tombstones, func(t stowage.Tombstone) bool { return c.resolved(t, report.Spec.NodeName) })
	removed := len(before.Spec.Tombstones) - len(report.Spec.Tombstones)
	switch {
	case removed == 0:
		return nil
	case c.Settings.DryRun:
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
		c.sweeps.Add(sweepTombstones) // with what changed
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("update LocalDiskReport %s: %w", report.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Removed tombstones of cleaned disks", logkeys.Node, klog.KRef("", report.Spec.NodeName), "removed", removed)
	metrics.CountTombstonesRemoved(removed)
	return nil
}

// resolved reports whether a tombstone in the report of a node is resolved.
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
	first := stowage.StoredPage(c.ReportInformer.GetStore(), node, 1)
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
	if c.Settings.DryRun {
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
		return fmt.Errorf("delete LocalDiskReport %s: %w", report.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Removed the report of a deleted node", logkeys.Node, klog.KRef("", node), "report", report.Name)
	return nil
}
