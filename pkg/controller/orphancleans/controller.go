// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package orphancleans is the controller's loop that allows provisioners to clean disks
// whose volume is gone, up to a limit per hour in the whole cluster. Grants are written to the
// report of the requesting node, from which a restarted controller counts them.
package orphancleans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/orphancleans/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

// retry is the delay after a failed write.
const retry = 5 * time.Second

// all is the only key of the queue: every sync answers the requests of all nodes.
const all = "requests"

// concernedIndex has the reports with requests or grants under one key, so that the cost of a
// change does not grow with the cluster.
const concernedIndex = "stowage.dev/orphan-cleans"

// Reports writes LocalDiskReports.
type Reports interface {
	Update(ctx context.Context, report *stowage.LocalDiskReport, opts metav1.UpdateOptions) (*stowage.LocalDiskReport, error)
}

// Config configures a Controller.
type Config struct {
	Reports Reports
	// ReportInformer has the reports of all nodes. The caller runs it.
	ReportInformer cache.SharedIndexInformer
	// PerHour is how many disks of the cluster may be cleaned in any hour.
	PerHour int
}

// Controller answers the requests of all nodes. Only the leader runs it.
type Controller struct {
	Config
	queue loop.Queue
	// granted are the grants that this process wrote, by node: the informer may lag behind.
	granted map[string][]rules.Grant
}

// New returns a Controller; Run starts it.
func New(config Config) (*Controller, error) {
	if config.Reports == nil || config.ReportInformer == nil || config.PerHour < 0 {
		return nil, errors.New("make the controller of orphan cleans: client, report informer and a limit of at least 0 are required")
	}
	c := &Controller{Config: config, queue: loop.NewQueue("orphan_cleans", retry, retry), granted: map[string][]rules.Grant{}}
	if err := errors.Join(loop.WatchEach(config.ReportInformer, c.enqueue),
		config.ReportInformer.AddIndexers(cache.Indexers{concernedIndex: concerns})); err != nil {
		return nil, fmt.Errorf("watch reports: %w", err)
	}
	metrics.RegisterController()
	return c, nil
}

// enqueue requests a sync if the report has requests or grants.
func (c *Controller) enqueue(report any) {
	if keys, err := concerns(report); err == nil && len(keys) > 0 {
		c.queue.Add(all)
	}
}

// Run answers until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.ReportInformer.HasSynced) {
		return fmt.Errorf("list reports: %w", context.Cause(ctx))
	}
	defer metrics.SetOrphanCleansWaiting(0)
	c.queue.Add(all)
	loop.Run(ctx, c.queue, 1, func(ctx context.Context, _ string) (time.Duration, error) { return c.sync(ctx) })
	return nil
}

// sync writes the grants that the limit allows, and returns when to sync again; zero if only by
// events.
func (c *Controller) sync(ctx context.Context) (time.Duration, error) {
	now := time.Now()
	first, requests := c.requests()
	grants := map[string][]rules.Grant{}
	for node, report := range first {
		grants[node] = rules.ParseGrants(report.Annotations[wellknown.CleanOrphansAnnotation])
	}
	for node, own := range c.granted {
		own = rules.Keep(now, own)
		if c.granted[node] = own; len(own) == 0 {
			delete(c.granted, node)
		}
		grants[node] = merge(grants[node], own)
	}
	decision := rules.Decide(now, c.PerHour, grants, requests)
	metrics.SetOrphanCleansWaiting(decision.Waiting)
	byNode := map[string][]rules.Grant{}
	for _, request := range decision.Granted {
		// The time is as precise as the annotation writes it.
		byNode[request.Node] = append(byNode[request.Node], rules.Grant{Data: request.Data, At: now.UTC().Truncate(time.Second)})
	}
	var problems error
	for node, fresh := range byNode {
		problems = errors.Join(problems, c.grant(ctx, first[node], rules.Keep(now, grants[node]), fresh))
	}
	return decision.Retry, problems
}

// requests returns the requests in all reports, and the first page of each node with requests or
// grants.
func (c *Controller) requests() (first map[string]*stowage.LocalDiskReport, requests []rules.Request) {
	first = map[string]*stowage.LocalDiskReport{}
	for _, report := range loop.List[stowage.LocalDiskReport](c.ReportInformer, concernedIndex, "") {
		node := report.Spec.NodeName
		page := stowage.StoredPage(c.ReportInformer.GetStore(), node, 1)
		if page == nil {
			continue // deleted meanwhile, or not the node's
		}
		first[node] = page
		for i := range report.Status.Entries {
			if e := &report.Status.Entries[i]; asking(e) {
				request := rules.Request{Node: node, Data: e.Acknowledgement}
				if e.Since != nil {
					request.Since = e.Since.Time
				}
				requests = append(requests, request)
			}
		}
	}
	return first, requests
}

// concerns is the index function of concernedIndex.
func concerns(object any) ([]string, error) {
	report, ok := object.(*stowage.LocalDiskReport)
	if !ok || report.Name != stowage.PageName(report.Spec.NodeName, report.Spec.Page) {
		return nil, nil
	}
	if report.Annotations[wellknown.CleanOrphansAnnotation] != "" || slices.ContainsFunc(report.Status.Entries, func(e stowage.Entry) bool { return asking(&e) }) {
		return []string{""}, nil
	}
	return nil, nil
}

// asking reports whether an entry requests a grant.
func asking(e *stowage.Entry) bool {
	return e.Reason == string(disk.OrphanCleanWaits) && e.Acknowledgement != ""
}

// grant writes grants to a node's report if it has not changed. They also count after an error
// that does not show whether they were written.
func (c *Controller) grant(ctx context.Context, shown *stowage.LocalDiskReport, kept, fresh []rules.Grant) error {
	node, before := shown.Spec.NodeName, c.granted[shown.Spec.NodeName]
	c.granted[node] = merge(before, fresh)
	report := shown.DeepCopy()
	metav1.SetMetaDataAnnotation(&report.ObjectMeta, wellknown.CleanOrphansAnnotation, rules.FormatGrants(merge(kept, fresh)))
	_, err := c.Reports.Update(ctx, report, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err): // an event with the change follows
		c.granted[node] = before
		return nil
	case err != nil:
		return fmt.Errorf("update LocalDiskReport %s: %w", report.Name, err)
	}
	metrics.CountOrphanCleansAllowed(len(fresh))
	for _, grant := range fresh {
		klog.FromContext(ctx).Info("Allowed to clean a disk without a volume", logkeys.Node, klog.KRef("", node), "data", grant.Data)
	}
	return nil
}

// merge adds grants that are not in the list yet.
func merge(grants, more []rules.Grant) []rules.Grant {
	known := sets.New(grants...)
	more = slices.DeleteFunc(slices.Clone(more), known.Has)
	return slices.Concat(grants, more)
}
