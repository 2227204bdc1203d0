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

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/provisioner/status"
)

// forbid rejects one kind of request.
func forbid(verb, resource string) func(string, string, string) (error, bool) {
	return func(v, r, name string) (error, bool) {
		if v == verb && r == resource {
			return apierrors.NewForbidden(corev1.Resource(resource), name, errors.New("by a policy")), false
		}
		return nil, false
	}
}

// TestQuietWhileNothingChanges: repeated events and writes of thousands of nodes would
// overload the API server.
func TestQuietWhileNothingChanges(t *testing.T) {
	for name, test := range map[string]struct {
		arrange func(e *env)
		reason  string
		// reads and writes limit the requests for volumes and nodes in six hours.
		reads, writes int
	}{
		"a volume that is free": {
			func(e *env) { e.disks.add("disk1", "") }, "Pending", 0, 0,
		},
		"a disk that holds data": {
			func(e *env) { e.disks.add("disk1", "ext4") }, "Skipped: NotEmpty", 6 * 30, 0,
		},
		"a disk without a StorageClass": {
			func(e *env) {
				e.disks.add("disk1", "")
				if err := e.api.StorageV1().StorageClasses().Delete(context.Background(), "fast", metav1.DeleteOptions{}); err != nil {
					e.t.Fatal(err)
				}
			}, "Pending: StorageClassMissing", 6 * 30, 0,
		},
		"a volume that the API server rejects": {
			func(e *env) { e.disks.add("disk1", ""); e.api.refuse(forbid("create", "persistentvolumes")) }, "Pending: CannotCreate", 6 * 90, 6 * 30,
		},
		"a node that keeps its startup taint": {
			func(e *env) {
				e.disks.add("disk1", "")
				e.config.RemoveNodeNotReadyTaint, e.config.NodeNotReadyTaintKey = true, "stowage.dev/starting"
				e.taint()
				e.api.refuse(forbid("patch", "nodes"))
			}, "Pending", 6 * 31, 6 * 31,
		},
		"a disk that does not answer": {
			func(e *env) { e.disks.hang(e.disks.add("disk1", "")) }, "Pending: TimedOut", 6 * 30, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				test.arrange(e)
				e.start()
				e.pass(time.Hour)
				e.expect("disk1", test.reason)
				e.events.take()
				e.reports.count()
				e.api.total()
				e.pass(6 * time.Hour)
				e.expect("disk1", test.reason)
				if got := e.events.take(); len(got) > 0 {
					e.t.Errorf("%d events in six hours, the first is %s", len(got), got[0])
				}
				if n := e.reports.count(); n > 0 {
					e.t.Errorf("wrote the report %d times in six hours", n)
				}
				if reads, writes := e.api.total(); reads > test.reads || writes > test.writes {
					e.t.Errorf("%d reads and %d writes in six hours, want %d and %d at most", reads, writes, test.reads, test.writes)
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

// TestStartupTaint: it is removed when every disk was decided on, and other taints are kept.
func TestStartupTaint(t *testing.T) {
	inBubble(t, func(e *env) {
		e.config.RemoveNodeNotReadyTaint, e.config.NodeNotReadyTaintKey = true, "stowage.dev/starting"
		e.taint()
		e.disks.add("disk1", "")
		e.start()
		e.pass(time.Minute)
		if got := e.taints(); len(got) != 2 {
			t.Errorf("taints are %q while a volume is still Pending", got)
		}
		e.phase(corev1.VolumeAvailable)
		e.pass(time.Minute)
		if got := e.taints(); len(got) != 1 || got[0] != "other" {
			t.Errorf("taints are %q, want the other one", got)
		}
	})
}

// TestStartupTaintOfRecreatedNode: the provisioner continues, and the Node has the taint
// again, which is removed with the next check of the report. A taint that is added to the same
// Node later is kept.
func TestStartupTaintOfRecreatedNode(t *testing.T) {
	inBubble(t, func(e *env) {
		e.config.RemoveNodeNotReadyTaint, e.config.NodeNotReadyTaintKey = true, "stowage.dev/starting"
		e.taint()
		e.disks.add("disk1", "")
		e.start()
		e.phase(corev1.VolumeAvailable)
		e.pass(time.Minute)
		if got := e.taints(); len(got) != 1 {
			t.Fatalf("taints are %q, want the other one", got)
		}
		e.taint()
		e.api.count("get nodes")
		e.pass(status.RecheckInterval + time.Minute)
		if got := e.taints(); len(got) != 2 {
			t.Errorf("taints are %q, want the one that was added later", got)
		}
		if n := e.api.count("get nodes"); n != 2 { // one of them is the test's
			t.Errorf("the Node was read %d times in %s, want once", n-1, status.RecheckInterval)
		}

		nodes := e.api.CoreV1().Nodes()
		if err := nodes.Delete(context.Background(), node, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.pass(status.RecheckInterval + time.Minute) // it is looked for while it is away
		second := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "second"}}
		if _, err := nodes.Create(context.Background(), second, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.taint()
		e.pass(status.RecheckInterval + time.Minute)
		if got := e.taints(); len(got) != 1 || got[0] != "other" {
			t.Errorf("taints are %q, want the other one", got)
		}
	})
}

// TestDeletedReport is written again, although no disk has changed.
func TestDeletedReport(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "data")
		e.start()
		e.pass(time.Hour)
		e.reports.mu.Lock()
		delete(e.reports.known, node)
		e.reports.mu.Unlock()
		e.pass(time.Hour)
		e.reports.mu.Lock()
		defer e.reports.mu.Unlock()
		if report := e.reports.known[node]; report == nil || len(report.Status.Entries) != 1 {
			t.Errorf("the report is %v", report)
		}
	})
}

// TestPagesOfFormerProvisioner have disks that are gone, and are emptied.
func TestPagesOfFormerProvisioner(t *testing.T) {
	inBubble(t, func(e *env) {
		for page := int32(1); page <= 3; page++ {
			e.reports.known[stowage.PageName(node, page)] = &stowage.LocalDiskReport{
				ObjectMeta: metav1.ObjectMeta{Name: stowage.PageName(node, page)}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: page},
				Status: stowage.LocalDiskReportStatus{Entries: []stowage.Entry{{Name: "gone"}}},
			}
		}
		e.disks.add("disk1", "data")
		e.start()
		e.reports.mu.Lock()
		defer e.reports.mu.Unlock()
		for page, want := range []int{1, 0, 0} {
			if got := e.reports.known[stowage.PageName(node, int32(page+1))].Status.Entries; len(got) != want {
				t.Errorf("page %d has %d slots, want %d", page+1, len(got), want)
			}
		}
	})
}

// TestReportThatCannotBeWritten is retried with backoff, and is correct in the end.
func TestReportThatCannotBeWritten(t *testing.T) {
	inBubble(t, func(e *env) {
		e.reports.refuse(errors.New("etcd is full"))
		e.disks.add("disk1", "data")
		e.start()
		e.pass(24 * time.Hour)
		if n := e.reports.count(); n > 24*30+20 {
			t.Errorf("tried %d times in a day", n)
		}
		e.reports.refuse(nil)
		e.pass(3 * time.Minute)
		if report := e.reports.known[node]; len(report.Status.Entries) != 1 {
			t.Errorf("the report is %v", report.Status)
		}
	})
}

// TestOneEventForEachChange: a disk that is removed and returns causes an event each time,
// and none in between.
func TestOneEventForEachChange(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.startBound()
		e.events.take()
		for range 2 {
			e.disks.take("disk1")
			e.look()
			e.pass(24 * time.Hour)
			e.expect("disk1", "Missing: Missing")
			if got := e.events.take(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning Missing") {
				t.Errorf("the disk is gone, and events are %q", got)
			}
			e.disks.put(fact("disk1"))
			e.look()
			e.expect("disk1", "Bound")
		}
	})
}

// TestManySlotsAtOnce: a hundred disks are published at once, with few versions of the
// report.
func TestManySlotsAtOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		for i := range 100 {
			e.disks.add(fmt.Sprintf("disk%d", i), "")
		}
		e.start()
		e.pass(10 * time.Second)
		if got := e.api.volumes(); len(got) != 100 {
			t.Errorf("%d volumes, want 100", len(got))
		}
		if n := e.reports.count(); n > 10 {
			t.Errorf("wrote the report %d times", n)
		}
		for path, s := range e.provisioner.paths.byPath {
			if s.expected != (expectation{}) {
				t.Errorf("%s still waits for the informer to show %+v", path, s.expected)
			}
		}
	})
}

// TestStateOfRemovedDisksIsDropped: disks are attached and removed many times.
func TestStateOfRemovedDisksIsDropped(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.during = func(context.Context, disk.CleanRequest, func(disk.Progress) error) error {
			return errors.New("input/output error")
		}
		configure(e.config, func(c *provisioner.Class) { c.ExistingData = "Clean" })
		e.start()
		for i := range 20 {
			name := fmt.Sprintf("disk%d", i)
			e.disks.add(name, "data")
			e.look()
			e.expect(name, "Cleaning: CleanFailed")
			e.disks.take(name)
			e.look()
			e.pass(time.Minute)
		}
		a := e.provisioner
		cleans := a.cleans.Count(0)
		kept := len(a.paths.byPath) + cleans.Queued + cleans.Running + cleans.Failed
		if kept > 0 {
			t.Errorf("%d states of removed disks are kept", kept)
		}
	})
}
