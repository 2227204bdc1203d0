// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowagev1alpha1 "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/provisioners"
)

// skipped are the disks that provisioners must not publish, by node, with the reason.
var skipped = map[string]struct{ disk, reason string }{
	"node-a": {"disk2", "NotEmpty"},
	"node-b": {"spare", "NotMountPoint"},
}

func skippedOn(node string) int {
	if _, ok := skipped[node]; ok {
		return 1
	}
	return 0
}

// report waits until is returns true for the report of a node.
func (d *demo) report(ctx context.Context, node string, is func(*stowagev1alpha1.LocalDiskReport) bool) (*stowagev1alpha1.LocalDiskReport, error) {
	reports, err := provisioners.NewReports(d.cluster.RESTConfig())
	if err != nil {
		return nil, err
	}
	ctx, stop := d.watch.limit(ctx)
	defer stop()
	last, err := provisioners.WaitReport(ctx, reports, node, is)
	if err == nil {
		return last, nil
	}
	if last != nil {
		for _, class := range last.Status.Classes {
			err = fmt.Errorf("%w; class %s is ready: %t %s", err, class.Name, class.Ready, class.Message)
		}
		for _, entry := range last.Status.Entries {
			err = fmt.Errorf("%w; %s/%s is %s %s %s", err, entry.Class, entry.Name, entry.State, entry.Reason, entry.Message)
		}
	}
	return nil, err
}

func count(report *stowagev1alpha1.LocalDiskReport, state stowagev1alpha1.EntryState) int {
	found := 0
	for _, entry := range report.Status.Entries {
		if entry.State == state {
			found++
		}
	}
	return found
}

// printSkipped prints why entries of the directories are not published.
func (d *demo) printSkipped(ctx context.Context) error {
	d.print("The LocalDiskReport of a node has the entries that are not published, with the reason:")
	for _, node := range provisionerNodes {
		want, ok := skipped[node]
		if !ok {
			continue
		}
		report, err := d.report(ctx, node, func(*stowagev1alpha1.LocalDiskReport) bool { return true })
		if err != nil {
			return err
		}
		for _, entry := range report.Status.Entries {
			if entry.State != stowagev1alpha1.EntrySkipped {
				continue
			}
			d.quote(fmt.Sprintf("%s %s/%s: %s, %s", node, entry.Class, entry.Name, entry.Reason, entry.Message))
			if entry.Name != want.disk || entry.Reason != want.reason {
				return fmt.Errorf("the report of %s skips %s for %s, want %s for %s", node, entry.Name, entry.Reason, want.disk, want.reason)
			}
		}
	}
	return nil
}

// printReports prints what kubectl get ldr prints.
func (d *demo) printReports(ctx context.Context) error {
	rows, err := d.printed(ctx, "/apis/stowage.dev/v1alpha1/localdiskreports")
	if err != nil {
		return err
	}
	d.print("kubectl get ldr:")
	table := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, indent+"| "+strings.Join(row, "\t"))
	}
	return table.Flush()
}

// printed lists objects as a table of the API server, as kubectl does: the header, and a row
// for each object.
func (d *demo) printed(ctx context.Context, path string) ([][]string, error) {
	text, err := d.cluster.Client().Discovery().RESTClient().Get().AbsPath(path).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	var list metav1.Table
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read the list of %s: %w", path, err)
	}
	rows := make([][]string, 1+len(list.Rows))
	for i, column := range list.ColumnDefinitions {
		if column.Priority > 0 {
			continue // for -o wide
		}
		rows[0] = append(rows[0], strings.ToUpper(column.Name))
		for j, row := range list.Rows {
			if i >= len(row.Cells) {
				return nil, errors.New("a row of the list is too short")
			}
			rows[1+j] = append(rows[1+j], fmt.Sprint(row.Cells[i]))
		}
	}
	return rows, nil
}
