// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/pkg/testing/commands"
)

// diskReports are the reports of the nodes a and b. Updates of one node's are refused. It is safe for concurrent use.
type diskReports struct {
	items   []stowage.LocalDiskReport
	refused string

	mu      sync.Mutex
	updated map[string]string // annotations by node
}

func newDiskReports(refused string) *diskReports {
	report := func(node string, entries ...stowage.Entry) stowage.LocalDiskReport {
		return stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1},
			Status: stowage.LocalDiskReportStatus{Entries: entries},
		}
	}
	return &diskReports{refused: refused, updated: map[string]string{}, items: []stowage.LocalDiskReport{
		report("a",
			stowage.Entry{Class: "fast", Name: "disk1", State: stowage.EntryRetained, Reason: "RetainedDirty", Acknowledgement: "id1/uid1"},
			stowage.Entry{Class: "slow", Name: "disk2", State: stowage.EntrySkipped, Reason: "OtherCluster", Acknowledgement: "id2/uid2"},
			stowage.Entry{Class: "slow", Name: "disk3", State: stowage.EntrySkipped, Reason: "NotEmpty", Acknowledgement: "id3/boot"}),
		report("b", stowage.Entry{Class: "fast", Name: "disk1", State: stowage.EntryRetained, Reason: "VolumeVanished", Acknowledgement: "id4/uid4"}),
	}}
}

func (r *diskReports) Get(_ context.Context, name string, _ metav1.GetOptions) (*stowage.LocalDiskReport, error) {
	for i := range r.items {
		if r.items[i].Name == name {
			return r.items[i].DeepCopy(), nil
		}
	}
	return nil, apierrors.NewNotFound(stowage.SchemeGroupVersion.WithResource("localdiskreports").GroupResource(), name)
}

func (r *diskReports) List(context.Context, metav1.ListOptions) (*stowage.LocalDiskReportList, error) {
	return (&stowage.LocalDiskReportList{Items: r.items}).DeepCopy(), nil
}

func (r *diskReports) Update(_ context.Context, report *stowage.LocalDiskReport, _ metav1.UpdateOptions) (*stowage.LocalDiskReport, error) {
	if report.Name == r.refused {
		return nil, errors.New("no rights")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updated[report.Name] = report.Annotations[wellknown.PublishRetainedAnnotation]
	return report, nil
}

func TestAcknowledge(t *testing.T) {
	of := func(options migrate.KeptOptions, confirm bool) acknowledgeOptions {
		return acknowledgeOptions{KeptOptions: options, confirm: confirm}
	}
	for name, test := range map[string]struct {
		options acknowledgeOptions
		refused string
		prints  []string
		fails   string
		writes  map[string]string
	}{
		"without --confirm nothing is changed": {
			options: of(migrate.KeptOptions{}, false),
			prints:  []string{"NODE  CLASS  NAME   STATE     REASON", "b     fast   disk1  Retained  VolumeVanished  id4/uid4", "3 to acknowledge, 0 acknowledged already.", "Nothing was changed"},
		},
		"of all nodes": {
			options: of(migrate.KeptOptions{}, true), prints: []string{"Acknowledged 3."}, writes: map[string]string{"a": "id1/uid1,id2/uid2", "b": "id4/uid4"},
		},
		"of a class": {
			options: of(migrate.KeptOptions{Classes: []string{"slow"}}, true), prints: []string{"Acknowledged 1."}, writes: map[string]string{"a": "id2/uid2"},
		},
		"of two nodes, for a reason that one of them has": {
			options: of(migrate.KeptOptions{Nodes: []string{"a", "b"}, Reasons: []string{"NotEmpty"}}, true), prints: []string{"Acknowledged 1."}, writes: map[string]string{"a": "id3/boot"},
		},
		"a refusal does not keep the next node from being tried": {
			options: of(migrate.KeptOptions{}, true), refused: "a", prints: []string{"report of node a: update LocalDiskReport a: no rights", "Acknowledged 1."},
			fails: "1 of 2 reports could not be written", writes: map[string]string{"b": "id4/uid4"},
		},
		"nothing to do": {
			options: of(migrate.KeptOptions{Classes: []string{"none"}}, true), prints: []string{"There is nothing to acknowledge; 0 disks are acknowledged already."},
		},
		"an unknown node":   {options: of(migrate.KeptOptions{Nodes: []string{"c"}}, true), fails: "node c has no LocalDiskReport: kubectl get localdiskreports lists"},
		"an unknown reason": {options: of(migrate.KeptOptions{Reasons: []string{"notEmpty"}}, true), fails: `--reason: must be one of OtherCluster, `},
	} {
		t.Run(name, func(t *testing.T) {
			reports := newDiskReports(test.refused)
			out, err := commands.Output(t, &cobra.Command{Use: "acknowledge", SilenceUsage: true, SilenceErrors: true, RunE: func(cmd *cobra.Command, _ []string) error {
				return test.options.run(cmd, reports)
			}})
			check(t, out, err, test.prints, test.fails)
			if test.writes == nil {
				test.writes = map[string]string{}
			}
			if diff := cmp.Diff(test.writes, reports.updated); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}
