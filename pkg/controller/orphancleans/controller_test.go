// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package orphancleans

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/orphancleans/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// testbed is a controller whose informer shows what the test puts into it.
type testbed struct {
	t       *testing.T
	c       *Controller
	reports map[string]*stowage.LocalDiskReport
	// behind: the informer does not show writes; refused is the error of writes.
	behind  bool
	refused error
}

func runTest(t *testing.T, perHour int, test func(w *testbed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &testbed{t: t, reports: map[string]*stowage.LocalDiskReport{}}
		w.start(perHour)
		test(w)
	})
}

// start creates a new controller, as after a restart.
func (w *testbed) start(perHour int) {
	w.t.Helper()
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &stowage.LocalDiskReport{}, 0, cache.Indexers{})
	c, err := New(Config{Reports: w, ReportInformer: informer, PerHour: perHour})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.queue.ShutDown)
	w.c = c
	for _, report := range w.reports {
		w.show(report)
	}
}

func (w *testbed) show(report *stowage.LocalDiskReport) {
	w.t.Helper()
	if err := w.c.ReportInformer.GetStore().Add(report); err != nil {
		w.t.Fatal(err)
	}
}

// Update implements Reports.
func (w *testbed) Update(_ context.Context, report *stowage.LocalDiskReport, _ metav1.UpdateOptions) (*stowage.LocalDiskReport, error) {
	if w.refused != nil {
		return nil, w.refused
	}
	w.reports[report.Name] = report
	if !w.behind {
		w.show(report)
	}
	return report, nil
}

// ask adds requests of a node.
func (w *testbed) ask(node string, data ...string) {
	w.t.Helper()
	report := &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1}}
	if before := w.reports[node]; before != nil {
		report.Annotations = before.Annotations
	}
	for i, name := range data {
		report.Status.Entries = append(report.Status.Entries, stowage.Entry{
			Class: "fast", Name: fmt.Sprintf("disk%d", i), State: stowage.EntryCleaning, Reason: string(disk.OrphanCleanWaits), Acknowledgement: name,
		})
	}
	w.reports[node] = report
	w.show(report)
}

// sync calls sync of the controller.
func (w *testbed) sync() time.Duration {
	w.t.Helper()
	again, err := w.c.sync(w.t.Context())
	if err != nil && w.refused == nil {
		w.t.Error(err)
	}
	return again
}

// granted counts the grants in all reports.
func (w *testbed) granted() int {
	n := 0
	for _, report := range w.reports {
		n += len(rules.ParseGrants(report.Annotations[wellknown.CleanOrphansAnnotation]))
	}
	return n
}

// TestLimitOutlivesRestarts: the grants of earlier processes count, until an hour is over.
func TestLimitOutlivesRestarts(t *testing.T) {
	runTest(t, 3, func(w *testbed) {
		w.ask("n1", "a", "b")
		w.ask("n2", "c", "d", "e")
		if again := w.sync(); w.granted() != 3 || again != time.Hour {
			t.Fatalf("granted %d, again in %s; want 3, again in an hour", w.granted(), again)
		}
		for range 3 {
			time.Sleep(15 * time.Minute) //nolint:forbidigo // the bubble's time
			w.start(3)
			if w.sync(); w.granted() != 3 {
				t.Fatalf("granted %d after a restart, want 3", w.granted())
			}
		}
		time.Sleep(15 * time.Minute) //nolint:forbidigo // the bubble's time
		w.ask("n1")                  // its disks are clean
		w.ask("n2", "d", "e")
		w.start(3)
		if w.sync(); w.granted() != 4 { // two of the last hour's are still on n1's report
			t.Errorf("granted %d, want two more", w.granted()-2)
		}
	})
}

// TestInformerIsBehind: grants of this process count before the informer shows them.
func TestInformerIsBehind(t *testing.T) {
	runTest(t, 2, func(w *testbed) {
		w.behind = true
		w.ask("n1", "a", "b", "c")
		w.sync()
		w.ask("n2", "d")
		if w.sync(); w.granted() != 2 {
			t.Errorf("granted %d, want 2", w.granted())
		}
	})
}

// TestWritesThatFail: a write that may have been executed counts; one that was rejected with a
// conflict does not.
func TestWritesThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"no answer":               {errors.New("connection lost"), 0},
		"the report has changed":  {apierrors.NewConflict(stowage.SchemeGroupVersion.WithResource("localdiskreports").GroupResource(), "n1", errors.New("changed")), 1},
		"the report is not there": {apierrors.NewNotFound(stowage.SchemeGroupVersion.WithResource("localdiskreports").GroupResource(), "n1"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, 1, func(w *testbed) {
				w.ask("n1", "a")
				w.refused = test.err
				w.sync()
				w.refused = nil
				w.ask("n2", "b")
				if w.sync(); w.granted() != test.want {
					t.Errorf("granted %d, want %d", w.granted(), test.want)
				}
			})
		})
	}
}

// TestNoReport: a page of a node without a first page is ignored.
func TestNoReport(t *testing.T) {
	runTest(t, 1, func(w *testbed) {
		w.ask("n1", "a")
		report := w.reports["n1"].DeepCopy()
		report.Name, report.Spec = "n2.page-2", stowage.LocalDiskReportSpec{NodeName: "n2", Page: 2}
		w.reports = map[string]*stowage.LocalDiskReport{report.Name: report}
		w.start(1)
		if w.sync(); w.granted() != 0 {
			t.Errorf("granted %d, want none", w.granted())
		}
	})
}
