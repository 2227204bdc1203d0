// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
)

const (
	// reportPause is the least time between two versions of the report, so that a node
	// that publishes a hundred disks at once does not write a hundred.
	reportPause = time.Second
	// progressPause is the time between two versions that differ only in how far
	// cleans are.
	progressPause = 30 * time.Second
	// reportRecheck is how often the report is checked to still exist, and to have the
	// conditions that were written.
	reportRecheck = 10 * time.Minute
	// reportGrace is how long the report may not be written until the provisioner is not
	// ready: what the report says of disks is old.
	reportGrace = time.Minute
)

// Reports writes LocalDiskReports; NewReports makes one.
type Reports interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*stowage.LocalDiskReport, error)
	Create(ctx context.Context, report *stowage.LocalDiskReport, opts metav1.CreateOptions) (*stowage.LocalDiskReport, error)
	UpdateStatus(ctx context.Context, report *stowage.LocalDiskReport, opts metav1.UpdateOptions) (*stowage.LocalDiskReport, error)
	List(ctx context.Context, opts metav1.ListOptions) (*stowage.LocalDiskReportList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// NewReports makes a client for reports.
func NewReports(config *rest.Config) (Reports, error) {
	return diskreports.NewClient(config)
}

// run writes the report when it has changed, and again if something has
// deleted it. It takes the startup taint off, too.
func (r *statusReporter) run(ctx context.Context) {
	var written []stowage.LocalDiskReportStatus
	wait, found := time.Duration(0), time.Now()
	for {
		timer := time.NewTimer(progressPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.changed:
		case <-timer.C:
			if !r.provisioner.cleans.any() && !r.provisioner.proofs.any() && wait == 0 && time.Since(found) < reportRecheck {
				continue
			}
		}
		timer.Stop()
		if !sleep(ctx, max(reportPause, wait)) {
			return
		}
		r.measure()
		var lost, failed error
		if time.Since(found) >= reportRecheck {
			if written, lost = r.checkWritten(ctx, written); lost == nil {
				found = time.Now()
				r.cleared.checked = false
			}
		}
		if r.takeOutdated() && len(written) > 0 {
			written[0] = stowage.LocalDiskReportStatus{}
		}
		written, failed = r.write(ctx, written)
		r.attempted(ctx, errors.Join(lost, failed))
		if err := errors.Join(r.removeTaint(ctx), lost, failed); err == nil {
			wait = 0
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot write what users are told")
			wait = min(2*wait+reportPause, retryLast)
			r.poke()
		}
	}
}

// attempted notes whether the report could be written.
func (r *statusReporter) attempted(ctx context.Context, err error) {
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

// unwritten is an error if the report has never been written, or could not be for some time.
func (r *statusReporter) unwritten() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.provisioner.Reports == nil:
		return nil
	case r.problem == nil && r.reported.IsZero():
		return errors.New("the node's report has not been written yet")
	case r.problem == nil, !r.reported.IsZero() && time.Since(r.failing) < reportGrace:
		return nil
	default:
		return fmt.Errorf("the node's report cannot be written: %w", r.problem)
	}
}

// writeAgain has the first page written although it has not changed here.
func (r *statusReporter) rewrite() {
	r.mu.Lock()
	r.outdated = true
	r.mu.Unlock()
	r.poke()
}

func (r *statusReporter) takeOutdated() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.outdated
	r.outdated = false
	return was
}

// find says what of the report is still there: all of it, or nothing.
func (r *statusReporter) checkWritten(ctx context.Context, written []stowage.LocalDiskReportStatus) ([]stowage.LocalDiskReportStatus, error) {
	for i := range written {
		report, err := r.provisioner.Reports.Get(ctx, stowage.PageName(r.provisioner.Node, int32(i+1)), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return written, fmt.Errorf("look for the report: %w", err)
		case i == 0 && report.Spec.NodeName == r.provisioner.Node:
			r.provisioner.readAnnotations(ctx, report)
			if outdated(report) {
				written[0] = stowage.LocalDiskReportStatus{}
			}
		}
	}
	return written, nil
}

// outdated reports whether the conditions are of an earlier generation, or the controller has
// missed the provisioner's heartbeat.
func outdated(report *stowage.LocalDiskReport) bool {
	return slices.ContainsFunc(report.Status.Conditions, func(c metav1.Condition) bool {
		return c.ObservedGeneration != report.Generation || c.Status == metav1.ConditionUnknown && c.Reason == stowage.ReasonNoHeartbeat
	})
}

// write writes the pages that differ from what was written last, and returns what is
// written now, also after an error.
func (r *statusReporter) write(ctx context.Context, written []stowage.LocalDiskReportStatus) ([]stowage.LocalDiskReportStatus, error) {
	if r.provisioner.Reports == nil {
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

// leftovers is how many pages a former agent has written beyond those that are needed
// now.
func (r *statusReporter) leftovers(ctx context.Context, pages int) (int, error) {
	for more := 0; ; more++ {
		name := stowage.PageName(r.provisioner.Node, int32(pages+more+1))
		report, err := r.provisioner.Reports.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && report.Spec.NodeName != r.provisioner.Node:
			return more, nil
		case err != nil:
			return 0, fmt.Errorf("get LocalDiskReport %s: %w", name, err)
		}
	}
}

// same reports whether two pages differ in their times only.
func same(a, b *stowage.LocalDiskReportStatus) bool {
	x, y := *a, *b
	x.LastTransitionTime, y.LastTransitionTime = nil, nil
	return equality.Semantic.DeepEqual(x, y)
}

func (r *statusReporter) writePage(ctx context.Context, page int32, status *stowage.LocalDiskReportStatus) error {
	name := stowage.PageName(r.provisioner.Node, page)
	report, err := r.provisioner.Reports.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		report, err = r.provisioner.Reports.Create(ctx, &stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       stowage.LocalDiskReportSpec{NodeName: r.provisioner.Node, Page: page},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("get or create LocalDiskReport %s: %w", name, err)
	}
	if report.Spec.NodeName != r.provisioner.Node {
		return fmt.Errorf("update LocalDiskReport %s: it is of node %s", name, report.Spec.NodeName)
	}
	if page == 1 {
		r.provisioner.readAnnotations(ctx, report)
	}
	now := metav1.Now()
	status.LastTransitionTime = &now
	before := report.Status
	report.Status = *status
	report.Status.Jobs = before.Jobs // the controller's, and as they are
	report.Status.Conditions = renewed(before.Conditions, status.Conditions, report.Generation)
	if _, err := r.provisioner.Reports.UpdateStatus(ctx, report, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update LocalDiskReport %s: %w", name, err)
	}
	return nil
}

// renewed are conditions as they are written: one whose status is as before keeps its time.
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
