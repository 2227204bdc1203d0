// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/orphancleans/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
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
func (t *told) run(ctx context.Context) {
	var written []stowage.LocalDiskReportStatus
	wait, found := time.Duration(0), time.Now()
	for {
		timer := time.NewTimer(progressPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-t.news:
		case <-timer.C:
			if !t.agent.cleans.any() && !t.agent.proofs.any() && wait == 0 && time.Since(found) < reportRecheck {
				continue
			}
		}
		timer.Stop()
		if !sleep(ctx, max(reportPause, wait)) {
			return
		}
		t.measure()
		var lost, failed error
		if time.Since(found) >= reportRecheck {
			if written, lost = t.find(ctx, written); lost == nil {
				found = time.Now()
				t.agent.untainted.looked = false
			}
		}
		if t.takeOutdated() && len(written) > 0 {
			written[0] = stowage.LocalDiskReportStatus{}
		}
		written, failed = t.write(ctx, written)
		t.attempted(ctx, errors.Join(lost, failed))
		if err := errors.Join(t.agent.removeTaint(ctx), lost, failed); err == nil {
			wait = 0
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot write what users are told")
			wait = min(2*wait+reportPause, retryLast)
			t.poke()
		}
	}
}

// attempted notes whether the report could be written.
func (t *told) attempted(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		t.reported, t.failing = now, time.Time{}
	case t.failing.IsZero():
		t.failing = now
	}
	t.problem = err
}

// unwritten is an error if the report has never been written, or could not be for some time.
func (t *told) unwritten() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.agent.Reports == nil:
		return nil
	case t.problem == nil && t.reported.IsZero():
		return errors.New("the node's report has not been written yet")
	case t.problem == nil, !t.reported.IsZero() && time.Since(t.failing) < reportGrace:
		return nil
	default:
		return fmt.Errorf("the node's report cannot be written: %w", t.problem)
	}
}

// writeAgain has the first page written although it has not changed here.
func (t *told) writeAgain() {
	t.mu.Lock()
	t.outdated = true
	t.mu.Unlock()
	t.poke()
}

func (t *told) takeOutdated() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.outdated
	t.outdated = false
	return was
}

// find says what of the report is still there: all of it, or nothing.
func (t *told) find(ctx context.Context, written []stowage.LocalDiskReportStatus) ([]stowage.LocalDiskReportStatus, error) {
	for i := range written {
		report, err := t.agent.Reports.Get(ctx, stowage.PageName(t.agent.Node, int32(i+1)), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return written, fmt.Errorf("look for the report: %w", err)
		case i == 0 && report.Spec.NodeName == t.agent.Node:
			t.agent.allow(ctx, report)
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
func (t *told) write(ctx context.Context, written []stowage.LocalDiskReportStatus) ([]stowage.LocalDiskReportStatus, error) {
	if t.agent.Reports == nil {
		return nil, nil
	}
	pages := t.pages()
	if len(written) == 0 {
		more, err := t.leftovers(ctx, len(pages))
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
		if err := t.writePage(ctx, int32(i+1), &pages[i]); err != nil {
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
func (t *told) leftovers(ctx context.Context, pages int) (int, error) {
	for more := 0; ; more++ {
		name := stowage.PageName(t.agent.Node, int32(pages+more+1))
		report, err := t.agent.Reports.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && report.Spec.NodeName != t.agent.Node:
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

func (t *told) writePage(ctx context.Context, page int32, status *stowage.LocalDiskReportStatus) error {
	name := stowage.PageName(t.agent.Node, page)
	report, err := t.agent.Reports.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		report, err = t.agent.Reports.Create(ctx, &stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       stowage.LocalDiskReportSpec{NodeName: t.agent.Node, Page: page},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("get or create LocalDiskReport %s: %w", name, err)
	}
	if report.Spec.NodeName != t.agent.Node {
		return fmt.Errorf("update LocalDiskReport %s: it is of node %s", name, report.Spec.NodeName)
	}
	if page == 1 {
		t.agent.allow(ctx, report)
	}
	now := metav1.Now()
	status.LastTransitionTime = &now
	before := report.Status
	report.Status = *status
	report.Status.Jobs = before.Jobs // the controller's, and as they are
	report.Status.Conditions = renewed(before.Conditions, status.Conditions, report.Generation)
	if _, err := t.agent.Reports.UpdateStatus(ctx, report, metav1.UpdateOptions{}); err != nil {
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

// pages is the report as it should be.
func (t *told) pages() []stowage.LocalDiskReportStatus {
	entries := t.all()
	lists, truncated := stowage.Pages(entries)
	pages := make([]stowage.LocalDiskReportStatus, len(lists))
	for i := range lists {
		pages[i].Entries = lists[i]
	}
	summary := t.summarize(entries)
	first := &pages[0]
	first.Summary, first.Truncated, first.Conditions = &summary, truncated, t.conditions(entries)
	first.Classes, first.Tombstones = t.agent.classes(), t.agent.tombstones()
	return pages
}

// summarize counts entries, and adds up what their volumes offer.
func (t *told) summarize(entries []stowage.Entry) stowage.Summary {
	summary := stowage.Summarize(entries)
	summary.Capacity, summary.Free = *resource.NewQuantity(0, resource.BinarySI), *resource.NewQuantity(0, resource.BinarySI)
	for i := range entries {
		e := &entries[i]
		if e.Volume == "" {
			continue
		}
		offered := *resource.NewQuantity(t.bytes(e), resource.BinarySI)
		summary.Capacity.Add(offered)
		if e.State == stowage.EntryAvailable {
			summary.Free.Add(offered)
		}
	}
	return summary
}

// conditions describe the provisioner as a whole. They have neither time nor generation.
func (t *told) conditions(entries []stowage.Entry) []metav1.Condition {
	ready := metav1.Condition{Type: stowage.ConditionReady, Status: metav1.ConditionTrue, Reason: "DirectoriesRead"}
	if err := t.agent.reads(""); err != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "DirectoriesNotRead", stowage.FitMessage(err.Error())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return []metav1.Condition{ready, disksHealthy(entries), t.config}
}

// disksHealthy is the condition of all disks.
func disksHealthy(entries []stowage.Entry) metav1.Condition {
	c := metav1.Condition{Type: stowage.ConditionDisksHealthy, Status: metav1.ConditionTrue, Reason: "NoTrouble"}
	troubled := map[string]int{}
	for i := range entries {
		switch e := &entries[i]; {
		case e.State == stowage.EntryMissing, e.State == stowage.EntryReplaced, e.State == stowage.EntryUnproven, e.State == stowage.EntryFailing:
			troubled[string(e.State)]++
		case e.Reason == string(disk.TimedOut), e.Reason == string(disk.IOError), e.Reason == string(disk.FilesystemError), e.Reason == string(disk.DeviceReadOnly):
			troubled[e.Reason]++
		}
	}
	if len(troubled) == 0 {
		return c
	}
	var counts []string
	for _, trouble := range slices.Sorted(maps.Keys(troubled)) {
		counts = append(counts, fmt.Sprintf("%s: %d", trouble, troubled[trouble]))
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, "DisksInTrouble", strings.Join(counts, ", ")
	return c
}

// all are the entries, with how cleans are going.
func (t *told) all() []stowage.Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []stowage.Entry
	for _, path := range slices.Sorted(maps.Keys(t.entries)) {
		e := t.entries[path].Entry
		e.Cleaning, e.BlankProof = t.agent.cleans.describe(path), t.agent.proofs.describe(path)
		all = append(all, e)
	}
	return all
}

// classes are how the configured classes stand.
func (a *Agent) classes() []stowage.ClassStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []stowage.ClassStatus
	for _, class := range a.settings.Classes {
		status := stowage.ClassStatus{Name: class.Name, HostDir: class.HostDir, Ready: a.sight.looked[class.Name]}
		if problem := a.sight.trouble[class.Name]; problem != nil {
			status.Reason, status.Message = string(problem.Reason), problem.Message
		} else if _, err := a.factory.Storage().V1().StorageClasses().Lister().Get(class.Name); err != nil {
			status.Ready, status.Reason, status.Message = false, string(disk.ClassMissing), fmt.Sprintf("there is no StorageClass %q", class.Name)
		}
		all = append(all, status)
	}
	return stowage.Classes(all)
}

// tombstones are the disks that are dirty and have no volume. Those of another cluster are
// retained, and have none: a volume of the same name here is another one.
func (a *Agent) tombstones() []stowage.Tombstone {
	var all []stowage.Tombstone
	for _, record := range a.Records.All() {
		switch {
		case !record.State.Dirty():
			continue
		case record.Cluster != a.Cluster:
			record.State = disk.Retained
		case record.Volume != "" && a.shown(record.Volume) != nil:
			continue
		}
		all = append(all, stowage.Tombstone{
			Identity: string(record.Identity), Class: record.Key.Class, Name: record.Key.Name, Volume: record.Volume, VolumeUID: record.UID,
			Generation: record.Generation, State: stowage.TombstoneState(record.State), Since: &metav1.Time{Time: record.Updated},
		})
	}
	return stowage.Tombstones(all)
}

// allow takes over what annotations of the report allow: which data an administrator wants
// published, which the controller allows to be cleaned although its volume is gone, and that
// the node's machine was exchanged.
func (a *Agent) allow(ctx context.Context, report *stowage.LocalDiskReport) {
	a.acceptMachine(ctx, report)
	accepted, granted := map[string]bool{}, map[string]bool{}
	for word := range strings.SplitSeq(report.Annotations[wellknown.PublishRetainedAnnotation], ",") {
		if word = strings.TrimSpace(word); word != "" {
			accepted[word] = true
		}
	}
	for _, grant := range rules.ParseGrants(report.Annotations[wellknown.CleanOrphansAnnotation]) {
		granted[grant.Data] = true
	}
	a.mu.Lock()
	changed := !maps.Equal(a.accepted, accepted)
	a.accepted, a.granted = accepted, granted
	a.mu.Unlock()
	if changed {
		a.everything()
	}
}

// readAllowed reads the same from the report, and returns whether that allows something
// for a slot's disk that was not allowed before.
func (a *Agent) readAllowed(ctx context.Context, g *gathered) bool {
	if a.Reports == nil {
		return false
	}
	report, err := a.Reports.Get(ctx, stowage.PageName(a.Node, 1), metav1.GetOptions{})
	if err != nil || report.Spec.NodeName != a.Node {
		return false
	}
	a.allow(ctx, report)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.acknowledged(g) && !g.Acknowledged || g.GraceOver && !g.Granted && a.granted[g.Record.Acknowledgement()]
}

// acknowledged reports whether an administrator wants a disk published with its data. The
// caller holds mu.
func (a *Agent) acknowledged(g *gathered) bool {
	name := g.Slot.Acknowledgement()
	return name != "" && a.accepted[name]
}
