// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// forbid has one kind of request refused.
func forbid(verb, resource string) func(string, string, string) (error, bool) {
	return func(v, r, name string) (error, bool) {
		if v == verb && r == resource {
			return apierrors.NewForbidden(corev1.Resource(resource), name, errors.New("by a policy")), false
		}
		return nil, false
	}
}

// TestQuietWhileNothingChanges: on thousands of nodes, what is told again and again
// without being new brings the API server down.
func TestQuietWhileNothingChanges(t *testing.T) {
	for name, test := range map[string]struct {
		arrange func(w *env)
		reason  string
		// reads and writes are how many requests about volumes and nodes six hours may see.
		reads, writes int
	}{
		"a volume that is free": {
			func(w *env) { w.disks.add("disk1", "") }, "Pending", 0, 0,
		},
		"a disk that holds data": {
			func(w *env) { w.disks.add("disk1", "ext4") }, "Skipped: NotEmpty", 6 * 30, 0,
		},
		"a disk without a StorageClass": {
			func(w *env) {
				w.disks.add("disk1", "")
				if err := w.api.StorageV1().StorageClasses().Delete(context.Background(), "fast", metav1.DeleteOptions{}); err != nil {
					w.t.Fatal(err)
				}
			}, "Pending: StorageClassMissing", 6 * 30, 0,
		},
		"a volume that the API server refuses": {
			func(w *env) { w.disks.add("disk1", ""); w.api.refuse(forbid("create", "persistentvolumes")) }, "Pending: CannotCreate", 6 * 90, 6 * 30,
		},
		"a node that keeps its startup taint": {
			func(w *env) {
				w.disks.add("disk1", "")
				w.config.RemoveNodeNotReadyTaint, w.config.NodeNotReadyTaintKey = true, "stowage.dev/starting"
				w.taint()
				w.api.refuse(forbid("patch", "nodes"))
			}, "Pending", 6 * 31, 6 * 31,
		},
		"a disk that does not answer": {
			func(w *env) { w.disks.hang(w.disks.add("disk1", "")) }, "Pending: TimedOut", 6 * 30, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				test.arrange(w)
				w.start()
				w.pass(time.Hour)
				w.expect("disk1", test.reason)
				w.events.take()
				w.reports.count()
				w.api.total()
				w.pass(6 * time.Hour)
				w.expect("disk1", test.reason)
				if got := w.events.take(); len(got) > 0 {
					w.t.Errorf("%d events in six hours, the first is %s", len(got), got[0])
				}
				if n := w.reports.count(); n > 0 {
					w.t.Errorf("wrote the report %d times in six hours", n)
				}
				if reads, writes := w.api.total(); reads > test.reads || writes > test.writes {
					w.t.Errorf("%d reads and %d writes in six hours, want %d and %d at most", reads, writes, test.reads, test.writes)
				}
			})
		})
	}
}

// taint gives the node its startup taint.
func (e *env) taint() {
	e.t.Helper()
	n, err := e.api.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	n.Spec.Taints = []corev1.Taint{{Key: "stowage.dev/starting", Effect: corev1.TaintEffectNoSchedule}, {Key: "other", Effect: corev1.TaintEffectNoSchedule}}
	if _, err := e.api.CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) taints() []string {
	n, err := e.api.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	var keys []string
	for _, taint := range n.Spec.Taints {
		keys = append(keys, taint.Key)
	}
	return keys
}

// TestStartupTaint: it stays until every disk was decided about, and goes alone.
func TestStartupTaint(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.RemoveNodeNotReadyTaint, w.config.NodeNotReadyTaintKey = true, "stowage.dev/starting"
		w.taint()
		w.disks.add("disk1", "")
		w.start()
		w.pass(time.Minute)
		if got := w.taints(); len(got) != 2 {
			t.Errorf("taints are %q while a volume is still Pending", got)
		}
		w.phase(corev1.VolumeAvailable)
		w.pass(time.Minute)
		if got := w.taints(); len(got) != 1 || got[0] != "other" {
			t.Errorf("taints are %q, want the other one", got)
		}
	})
}

// TestStartupTaintOfANodeMadeAnew: its agent runs on, and the Node has the taint again, which
// goes when the report is made sure of. One that the same Node is given later stays.
func TestStartupTaintOfRecreatedNode(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.RemoveNodeNotReadyTaint, w.config.NodeNotReadyTaintKey = true, "stowage.dev/starting"
		w.taint()
		w.disks.add("disk1", "")
		w.start()
		w.phase(corev1.VolumeAvailable)
		w.pass(time.Minute)
		if got := w.taints(); len(got) != 1 {
			t.Fatalf("taints are %q, want the other one", got)
		}
		w.taint()
		w.api.count("get nodes")
		w.pass(reportRecheck + time.Minute)
		if got := w.taints(); len(got) != 2 {
			t.Errorf("taints are %q, want the one that the Node was given later", got)
		}
		if n := w.api.count("get nodes"); n != 2 { // one of them is the test's
			t.Errorf("the Node was asked for %d times in %s, want once", n-1, reportRecheck)
		}

		nodes := w.api.CoreV1().Nodes()
		if err := nodes.Delete(context.Background(), node, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(reportRecheck + time.Minute) // it is looked for while it is away
		second := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "second"}}
		if _, err := nodes.Create(context.Background(), second, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.taint()
		w.pass(reportRecheck + time.Minute)
		if got := w.taints(); len(got) != 1 || got[0] != "other" {
			t.Errorf("taints are %q, want the other one", got)
		}
	})
}

// TestReportThatSomebodyDeletes is written again, although nothing has changed.
func TestDeletedReport(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "data")
		w.start()
		w.pass(time.Hour)
		w.reports.mu.Lock()
		delete(w.reports.known, node)
		w.reports.mu.Unlock()
		w.pass(time.Hour)
		w.reports.mu.Lock()
		defer w.reports.mu.Unlock()
		if report := w.reports.known[node]; report == nil || len(report.Status.Entries) != 1 {
			t.Errorf("the report is %v", report)
		}
	})
}

// TestPagesOfAFormerAgent tell of disks that are gone, and are emptied.
func TestPagesOfFormerProvisioner(t *testing.T) {
	inBubble(t, func(w *env) {
		for page := int32(1); page <= 3; page++ {
			w.reports.known[stowage.PageName(node, page)] = &stowage.LocalDiskReport{
				ObjectMeta: metav1.ObjectMeta{Name: stowage.PageName(node, page)}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: page},
				Status: stowage.LocalDiskReportStatus{Entries: []stowage.Entry{{Name: "gone"}}},
			}
		}
		w.disks.add("disk1", "data")
		w.start()
		w.reports.mu.Lock()
		defer w.reports.mu.Unlock()
		for page, want := range []int{1, 0, 0} {
			if got := w.reports.known[stowage.PageName(node, int32(page+1))].Status.Entries; len(got) != want {
				t.Errorf("page %d tells of %d slots, want %d", page+1, len(got), want)
			}
		}
	})
}

// TestReportThatCannotBeWritten is tried again ever later, and is right in the end.
func TestReportThatCannotBeWritten(t *testing.T) {
	inBubble(t, func(w *env) {
		w.reports.refused = errors.New("etcd is full")
		w.disks.add("disk1", "data")
		w.start()
		w.pass(24 * time.Hour)
		if n := w.reports.count(); n > 24*30+20 {
			t.Errorf("tried %d times in a day", n)
		}
		w.reports.mu.Lock()
		w.reports.refused = nil
		w.reports.mu.Unlock()
		w.pass(3 * time.Minute)
		if report := w.reports.known[node]; len(report.Status.Entries) != 1 {
			t.Errorf("the report is %v", report.Status)
		}
	})
}

// TestOneEventForEachChange: a volume whose disk vanishes and returns is told of when it
// does, and not while it is away.
func TestOneEventForEachChange(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.startBound()
		w.events.take()
		for range 2 {
			w.disks.take("disk1")
			w.look()
			w.pass(24 * time.Hour)
			w.expect("disk1", "Missing: Missing")
			if got := w.events.take(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning Missing") {
				t.Errorf("the disk is gone, and events are %q", got)
			}
			w.disks.put(fact("disk1"))
			w.look()
			w.expect("disk1", "Bound")
		}
	})
}

// TestManySlotsAtOnce: a hundred disks are published in one go and told of in few
// versions of the report.
func TestManySlotsAtOnce(t *testing.T) {
	inBubble(t, func(w *env) {
		for i := range 100 {
			w.disks.add(fmt.Sprintf("disk%d", i), "")
		}
		w.start()
		w.pass(10 * time.Second)
		if got := w.api.volumes(); len(got) != 100 {
			t.Errorf("%d volumes, want 100", len(got))
		}
		if n := w.reports.count(); n > 10 {
			t.Errorf("wrote the report %d times", n)
		}
		for path, s := range w.provisioner.paths.byPath {
			if s.expected != (expectation{}) {
				t.Errorf("%s still waits for the informer to show %+v", path, s.expected)
			}
		}
	})
}

// TestNothingIsKeptOfWhatIsGone: a node where disks come and go for years.
func TestStateOfRemovedDisksIsDropped(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.during = func(context.Context, disk.CleanRequest, func(disk.Progress) error) error {
			return errors.New("input/output error")
		}
		w.config.Classes[0].ExistingData = "Clean"
		w.start()
		for i := range 20 {
			name := fmt.Sprintf("disk%d", i)
			w.disks.add(name, "data")
			w.look()
			w.expect(name, "Cleaning: CleanFailed")
			w.disks.take(name)
			w.look()
			w.pass(time.Minute)
		}
		a := w.provisioner
		kept := len(a.paths.byPath) + len(a.cleans.failed) + len(a.cleans.byPath)
		if kept > 0 {
			t.Errorf("%d things are still known of disks that are gone", kept)
		}
	})
}
