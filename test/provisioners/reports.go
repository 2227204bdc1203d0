// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioners

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/provisioner"
)

// Reports reads what provisioners report.
type Reports interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*stowage.LocalDiskReport, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// NewReports makes a client of reports.
func NewReports(config *rest.Config) (Reports, error) {
	client, err := provisioner.NewReports(config)
	if err != nil {
		return nil, err
	}
	reports, ok := client.(Reports)
	if !ok {
		return nil, errors.New("the client of reports cannot watch")
	}
	return reports, nil
}

// WaitReport waits until is accepts the first page of a node's report, and returns it.
// If ctx ends before, it returns the last page seen, which may be nil, and an error.
func WaitReport(ctx context.Context, reports Reports, node string, is func(*stowage.LocalDiskReport) bool) (*stowage.LocalDiskReport, error) {
	watching, err := reports.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("watch LocalDiskReport %s: %w", node, err)
	}
	defer watching.Stop()
	var last *stowage.LocalDiskReport
	for event := range watching.ResultChan() {
		if report, ok := event.Object.(*stowage.LocalDiskReport); ok {
			if last = report; is(report) {
				return report, nil
			}
		}
	}
	return last, fmt.Errorf("wait for LocalDiskReport %s: %w", node, context.Cause(ctx))
}
