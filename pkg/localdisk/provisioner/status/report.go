// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

const (
	// retryMax is the longest time between two attempts that failed.
	retryMax = 2 * time.Minute
	// reportPause is the least time between two versions of the report, so that a node that
	// publishes a hundred disks at once does not write it a hundred times.
	reportPause = time.Second
	// ProgressInterval is the time between two versions that differ only in the progress of
	// cleans.
	ProgressInterval = 30 * time.Second
	// RecheckInterval is how often the report is checked to still exist, and to have the
	// conditions that were written.
	RecheckInterval = 10 * time.Minute
	// reportGrace is how long writes of the report may fail before the provisioner is not
	// ready, since the report is outdated.
	reportGrace = time.Minute
)

// Reports reads and writes LocalDiskReports.
type Reports interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*stowage.LocalDiskReport, error)
	Create(ctx context.Context, report *stowage.LocalDiskReport, opts metav1.CreateOptions) (*stowage.LocalDiskReport, error)
	UpdateStatus(ctx context.Context, report *stowage.LocalDiskReport, opts metav1.UpdateOptions) (*stowage.LocalDiskReport, error)
}

// Run writes the report when it has changed or was deleted, and removes the startup taint.
func (r *Reporter) Run(ctx context.Context) {
	var written []stowage.LocalDiskReportStatus
	wait, found := time.Duration(0), time.Now()
	for {
		timer := time.NewTimer(ProgressInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.changed:
		case <-timer.C:
			if !r.cleans.Running() && !r.proofs.Running() && wait == 0 && time.Since(found) < RecheckInterval {
				continue
			}
		}
		timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(reportPause, wait)):
		}
		r.measure()
		var lost, failed error
		if time.Since(found) >= RecheckInterval {
			if written, lost = r.checkWritten(ctx, written); lost == nil {
				found = time.Now()
				r.cleared.checked = false
			}
		}
		if r.outdated.Swap(false) && len(written) > 0 {
			written[0] = stowage.LocalDiskReportStatus{}
		}
		written, failed = r.write(ctx, written)
		r.attempted(ctx, errors.Join(lost, failed))
		if err := errors.Join(r.removeTaint(ctx), lost, failed); err == nil {
			wait = 0
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to write the report or to remove the startup taint; retrying")
			wait = min(2*wait+reportPause, retryMax)
			r.Changed()
		}
	}
}

// attempted records whether the report could be written.
func (r *Reporter) attempted(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		r.reported, r.failing = now, time.Time{}
	case r.failing.IsZero():
		r.failing = now
	}
	r.problem = err
}

// Unwritten returns an error if the report was never written, or not for reportGrace.
func (r *Reporter) Unwritten() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.Reports == nil:
		return nil
	case r.problem == nil && r.reported.IsZero():
		return errors.New("the node's report has not been written yet")
	case r.problem == nil, !r.reported.IsZero() && time.Since(r.failing) < reportGrace:
		return nil
	default:
		return fmt.Errorf("the node's report cannot be written: %w", r.problem)
	}
}

// checkWritten returns the pages that still exist: all that were written, or none.
func (r *Reporter) checkWritten(ctx context.Context, written []stowage.LocalDiskReportStatus) ([]stowage.LocalDiskReportStatus, error) {
	for i := range written {
		report, err := r.Reports.Get(ctx, stowage.PageName(r.Node, int32(i+1)), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return written, fmt.Errorf("check the report: %w", err)
		case i == 0 && report.Spec.NodeName == r.Node:
			r.Provisioner.ReadAnnotations(ctx, report)
			if outdated(report) {
				written[0] = stowage.LocalDiskReportStatus{}
			}
		}
	}
	return written, nil
}

// outdated reports whether the conditions are of an earlier generation, or the controller has
// reported a missing heartbeat.
func outdated(report *stowage.LocalDiskReport) bool {
	return slices.ContainsFunc(report.Status.Conditions, func(c metav1.Condition) bool {
		return c.ObservedGeneration != report.Generation || c.Status == metav1.ConditionUnknown && c.Reason == stowage.ReasonNoHeartbeat
	})
}

// write writes the pages that differ from the last version, and returns the current version,
// also with an error.
func (r *Reporter) write(ctx context.Context, written []stowage.LocalDiskReportStatus) ([]stowage.LocalDiskReportStatus, error) {
	if r.Reports == nil {
		return nil, nil
	}
	pages := r.pages()
	if len(written) == 0 {
		more, err := r.leftovers(ctx, len(pages))
		if err != nil {
			return nil, err
		}
		pages = append(pages, make([]stowage.LocalDiskReportStatus, more)...)
	}
	for len(pages) < len(written) {
		pages = append(pages, stowage.LocalDiskReportStatus{})
	}
	now := slices.Clone(written)
	for i := range pages {
		if i < len(now) && same(&now[i], &pages[i]) {
			continue
		}
		if err := r.writePage(ctx, int32(i+1), &pages[i]); err != nil {
			return now, err
		}
		if i < len(now) {
			now[i] = pages[i]
		} else {
			now = append(now, pages[i])
		}
	}
	return now, nil
}

// leftovers returns how many pages of a former provisioner exist in addition to those that are
// needed.
func (r *Reporter) leftovers(ctx context.Context, pages int) (int, error) {
	for more := 0; ; more++ {
		name := stowage.PageName(r.Node, int32(pages+more+1))
		report, err := r.Reports.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && report.Spec.NodeName != r.Node:
			return more, nil
		case err != nil:
			return 0, fmt.Errorf("get LocalDiskReport %s: %w", name, err)
		}
	}
}

// same reports whether two pages are equal, except for their times.
func same(a, b *stowage.LocalDiskReportStatus) bool {
	x, y := *a, *b
	x.LastTransitionTime, y.LastTransitionTime = nil, nil
	return equality.Semantic.DeepEqual(x, y)
}

func (r *Reporter) writePage(ctx context.Context, page int32, status *stowage.LocalDiskReportStatus) error {
	name := stowage.PageName(r.Node, page)
	report, err := r.Reports.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		report, err = r.Reports.Create(ctx, &stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       stowage.LocalDiskReportSpec{NodeName: r.Node, Page: page},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("get or create LocalDiskReport %s: %w", name, err)
	}
	if report.Spec.NodeName != r.Node {
		return fmt.Errorf("update LocalDiskReport %s: it is of node %s", name, report.Spec.NodeName)
	}
	if page == 1 {
		r.Provisioner.ReadAnnotations(ctx, report)
	}
	now := metav1.Now()
	status.LastTransitionTime = &now
	before := report.Status
	report.Status = *status
	report.Status.Jobs = before.Jobs // written by the controller
	report.Status.Conditions = renewed(before.Conditions, status.Conditions, report.Generation)
	if _, err := r.Reports.UpdateStatus(ctx, report, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update LocalDiskReport %s: %w", name, err)
	}
	return nil
}

// renewed returns conditions with their times: one whose status has not changed keeps its time.
func renewed(before, now []metav1.Condition, generation int64) []metav1.Condition {
	conditions := slices.Clone(now)
	for i := range conditions {
		c := &conditions[i]
		c.ObservedGeneration, c.LastTransitionTime = generation, metav1.Now()
		if old := meta.FindStatusCondition(before, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return conditions
}
