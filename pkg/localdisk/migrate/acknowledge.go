// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// ReportWriter reads and writes LocalDiskReports.
type ReportWriter interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*stowage.LocalDiskReport, error)
	List(ctx context.Context, opts metav1.ListOptions) (*stowage.LocalDiskReportList, error)
	Update(ctx context.Context, report *stowage.LocalDiskReport, opts metav1.UpdateOptions) (*stowage.LocalDiskReport, error)
}

// KeptOptions select disks that hold data and have no volume.
type KeptOptions struct {
	// Nodes and Classes have the disks; empty for those of all.
	Nodes, Classes []string
	// Reasons are those of the disks' entries; empty for every reason but NotEmpty: the data of those
	// disks was never a volume's.
	Reasons []string
}

// wants reports whether an entry is selected, and can be acknowledged.
func (o *KeptOptions) wants(e *stowage.Entry) bool {
	switch {
	case e.Acknowledgement == "", len(o.Classes) > 0 && !slices.Contains(o.Classes, e.Class):
		return false
	case len(o.Reasons) == 0:
		return e.Reason != string(disk.NotEmpty)
	default:
		return slices.Contains(o.Reasons, e.Reason)
	}
}

// Kept are the selected disks of a node.
type Kept struct {
	Node string
	// Entries are those of all pages that are not acknowledged yet.
	Entries []stowage.Entry
	// Acknowledged counts those that are acknowledged already.
	Acknowledged int

	first *stowage.LocalDiskReport
}

// FindKept finds disks whose data can be acknowledged, by node. It changes nothing.
func FindKept(ctx context.Context, reports ReportWriter, options KeptOptions) ([]Kept, error) {
	if len(options.Nodes) == 0 {
		return findAllKept(ctx, reports, options)
	}
	var found []Kept
	for _, node := range slices.Compact(slices.Sorted(slices.Values(options.Nodes))) {
		pages, err := pagesOf(ctx, reports, node)
		if err != nil {
			return nil, err
		}
		found = append(found, options.keptOf(pages))
	}
	return found, nil
}

// findAllKept finds those of all nodes.
func findAllKept(ctx context.Context, reports ReportWriter, options KeptOptions) ([]Kept, error) {
	byNode := map[string][]*stowage.LocalDiskReport{}
	err := each(ctx, reports.List, metav1.ListOptions{}, func(report *stowage.LocalDiskReport) {
		if node := report.Spec.NodeName; report.Name == stowage.PageName(node, report.Spec.Page) {
			// Of up to 500 disks of a page, few are kept.
			report.Status.Entries = slices.DeleteFunc(report.Status.Entries, func(e stowage.Entry) bool { return !options.wants(&e) })
			byNode[node] = append(byNode[node], report)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list LocalDiskReports: %w", err)
	}
	var found []Kept
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		pages := byNode[node]
		slices.SortFunc(pages, func(a, b *stowage.LocalDiskReport) int { return cmp.Compare(a.Spec.Page, b.Spec.Page) })
		if pages[0].Name == node { // pages without the first are about to be deleted
			found = append(found, options.keptOf(pages))
		}
	}
	return found, nil
}

// pagesOf returns the pages of a node's report, at least one.
func pagesOf(ctx context.Context, reports ReportWriter, node string) ([]*stowage.LocalDiskReport, error) {
	var pages []*stowage.LocalDiskReport
	for page := int32(1); page <= stowage.MaxPages; page++ {
		name := stowage.PageName(node, page)
		report, err := reports.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && page > 1:
			return pages, nil
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("node %s has no LocalDiskReport: kubectl get localdiskreports lists the nodes that have one", node)
		case err != nil:
			return nil, fmt.Errorf("get LocalDiskReport %s: %w", name, err)
		case report.Spec.NodeName != node && page == 1:
			return nil, fmt.Errorf("LocalDiskReport %s is of node %s", name, report.Spec.NodeName)
		case report.Spec.NodeName != node:
			return pages, nil
		}
		pages = append(pages, report)
	}
	return pages, nil
}

// keptOf returns the selected disks of a node's report.
func (o *KeptOptions) keptOf(pages []*stowage.LocalDiskReport) Kept {
	kept := Kept{Node: pages[0].Spec.NodeName, first: pages[0]}
	known := acknowledgements(kept.first)
	for _, page := range pages {
		for _, e := range page.Status.Entries {
			switch {
			case !o.wants(&e):
			case slices.Contains(known, e.Acknowledgement):
				kept.Acknowledged++
			default:
				kept.Entries = append(kept.Entries, e)
			}
		}
	}
	return kept
}

// Acknowledge publishes the disks with their data. ErrChanged means that the report has
// changed and nothing was written: find again.
func Acknowledge(ctx context.Context, reports ReportWriter, kept *Kept) error {
	report := kept.first.DeepCopy()
	all := acknowledgements(report)
	for i := range kept.Entries {
		all = append(all, kept.Entries[i].Acknowledgement)
	}
	metav1.SetMetaDataAnnotation(&report.ObjectMeta, wellknown.PublishRetainedAnnotation, strings.Join(all, ","))
	_, err := reports.Update(ctx, report, metav1.UpdateOptions{})
	return writeError("update LocalDiskReport "+report.Name, err)
}

// acknowledgements returns the elements of the annotation.
func acknowledgements(report *stowage.LocalDiskReport) []string {
	var all []string
	for name := range strings.SplitSeq(report.Annotations[wellknown.PublishRetainedAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			all = append(all, name)
		}
	}
	return all
}
