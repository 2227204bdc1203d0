// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/logkeys"
)

// collectAfter is how long nothing has been written to a report before it goes, so that
// people can look what a node had.
const collectAfter = time.Hour

// spentReport says whether a report has nothing to say any more: its node is gone, no volume of
// it is left, and neither the controller nor the node remembers a disk in it that may hold
// data.
func (c *Controller) spentReport(report *stowage.LocalDiskReport, now time.Time) bool {
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
	return now.Sub(last) >= collectAfter
}

// collect deletes a report that has nothing to say any more, if it is still as it was shown.
func (c *Controller) collect(ctx context.Context, report *stowage.LocalDiskReport) error {
	node := report.Spec.NodeName
	if _, err := c.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err == nil {
		return nil // it is back, and the informer behind
	} else if !apierrors.IsNotFound(err) {
		return unavailable("get node "+node, err)
	}
	if c.DryRun() {
		if c.first(report.Name, "gone") {
			klog.FromContext(ctx).V(2).Info("Would remove the report of a node that is gone", logkeys.Node, klog.KRef("", node), "report", report.Name)
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
		return unavailable("delete LocalDiskReport "+report.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Removed the report of a node that is gone", logkeys.Node, klog.KRef("", node), "report", report.Name)
	return nil
}
