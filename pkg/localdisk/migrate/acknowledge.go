// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
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
	Update(ctx context.Context, report *stowage.LocalDiskReport, opts metav1.UpdateOptions) (*stowage.LocalDiskReport, error)
}

// Kept are the disks of a node that hold data and have no volume.
type Kept struct {
	// Entries are those of all pages that have an acknowledgement and one of the requested
	// reasons, and are not acknowledged yet.
	Entries []stowage.Entry
	// Acknowledged counts those that are acknowledged already.
	Acknowledged int

	first *stowage.LocalDiskReport
}

// FindKept finds the disks of a node whose data can be acknowledged, for any of the reasons;
// without reasons, for every reason but NotEmpty: the data of those disks was never a
// volume's. It changes nothing.
func FindKept(ctx context.Context, reports ReportWriter, node string, reasons []string) (*Kept, error) {
	kept := &Kept{}
	var known []string
	for page := int32(1); page <= stowage.MaxPages; page++ {
		name := stowage.PageName(node, page)
		report, err := reports.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && page > 1 {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("get LocalDiskReport %s: %w", name, err)
		}
		if report.Spec.NodeName != node {
			if page == 1 {
				return nil, fmt.Errorf("LocalDiskReport %s is of node %s", name, report.Spec.NodeName)
			}
			break
		}
		if page == 1 {
			kept.first, known = report, acknowledgements(report)
		}
		for _, e := range report.Status.Entries {
			switch {
			case e.Acknowledgement == "", len(reasons) == 0 && e.Reason == string(disk.NotEmpty), len(reasons) > 0 && !slices.Contains(reasons, e.Reason):
			case slices.Contains(known, e.Acknowledgement):
				kept.Acknowledged++
			default:
				kept.Entries = append(kept.Entries, e)
			}
		}
	}
	return kept, nil
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
