// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
)

// Keys of sweeps. Others are identities behind suspectPrefix.
const (
	tombstonesKey = "tombstones" // when a change may have resolved one
	reportsKey    = "reports"    // periodically; tombstones, too
	suspectPrefix = "identity/"
)

// sweep removes resolved tombstones, and with reportsKey obsolete reports; or it compares the
// nodes that report an identity.
func (c *Controller) sweep(ctx context.Context, key string) (again time.Duration, problems error) {
	if identity, ok := strings.CutPrefix(key, suspectPrefix); ok {
		c.reportDuplicates(identity)
		return 0, nil
	}
	for _, report := range loop.List[stowage.LocalDiskReport](c.ReportInformer, "", "") {
		switch {
		case len(report.Spec.Tombstones) > 0:
			problems = errors.Join(problems, c.moveTombstones(ctx, report))
		case key == reportsKey && c.obsolete(report, time.Now()):
			problems = errors.Join(problems, c.deleteReport(ctx, report))
		}
	}
	problems = errors.Join(problems, c.sweepTombstones(ctx))
	if key == reportsKey {
		again = sweepPeriod
	}
	return again, problems
}

// obsoleteAfter is how long a report is kept after its last change, so that users can look up the
// disks of a removed node.
const obsoleteAfter = time.Hour

// obsolete reports whether a report is no longer needed: its node is gone, it has no volumes, and
// the report remembers no disk that may hold data.
func (c *Controller) obsolete(report *stowage.LocalDiskReport, now time.Time) bool {
	node := report.Spec.NodeName
	if _, err := c.nodes.Get(node); !apierrors.IsNotFound(err) {
		return false
	}
	if volumes, err := c.volumes.GetIndexer().IndexKeys(byNode, node); err != nil || len(volumes) > 0 {
		return false
	}
	first := stowage.StoredPage(c.ReportInformer.GetStore(), node, 1)
	if first == nil && report.Spec.Page == 1 || first != nil && len(first.Status.Tombstones) > 0 {
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
		if c.notLogged("report/"+report.Name, "gone") {
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
