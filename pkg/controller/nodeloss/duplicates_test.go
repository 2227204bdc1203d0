// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/loop"
)

// recordedEvents are events, as "<object> <reason>".
type recordedEvents struct{ events []string }

func (n *recordedEvents) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	reference, _ := about.(*corev1.ObjectReference)
	n.events = append(n.events, fmt.Sprintf("%s %s: %.40s", reference.Name, reason, fmt.Sprintf(note, args...)))
}

// TestDuplicates: an identity on two existing nodes is reported once, with the other node named.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		a, b  string // identities that the nodes report
		gone  bool   // node b
		state stowage.EntryState
		want  []string
	}{
		"a cloned name": {
			a: "wwn:1", b: "wwn:1", state: stowage.EntryBound,
			want: []string{"a DuplicateIdentity: disk wwn:1 is also reported by node b: g", "b DuplicateIdentity: disk wwn:1 is also reported by node a: g"},
		},
		"two disks":                         {a: "wwn:1", b: "wwn:2", state: stowage.EntryBound},
		"one serial number on two machines": {a: "serial:m:1@m1", b: "serial:m:1@m2", state: stowage.EntryBound},
		"one image on two machines":         {a: "fs:u:/@m1", b: "fs:u:/@m2", state: stowage.EntryBound},
		"a node that is gone":               {a: "wwn:1", b: "wwn:1", gone: true, state: stowage.EntryBound},
		"a disk that was taken out":         {a: "wwn:1", b: "wwn:1", state: stowage.EntryMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, nodes := ofDisks()
			events := &recordedEvents{}
			c.Events, c.sweeps, c.duplicates = events, loop.NewQueue("sweeps", retryFirst, retryLast), map[string][]string{}
			defer c.sweeps.ShutDown()
			compare := func(identities ...string) {
				for c.suspect(identities); c.sweeps.Len() > 0; {
					key, _ := c.sweeps.Get()
					if _, err := c.sweep(t.Context(), key); err != nil {
						t.Error(err)
					}
					c.sweeps.Done(key)
				}
			}
			report := func(node, identity string) *stowage.LocalDiskReport {
				return &stowage.LocalDiskReport{
					ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1},
					Status: stowage.LocalDiskReportStatus{Entries: []stowage.Entry{{Identity: identity, State: tc.state}}},
				}
			}
			err := nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
			if !tc.gone {
				err = errors.Join(err, nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
			}
			indexer := c.ReportInformer.GetIndexer()
			if err := errors.Join(err, indexer.Add(report("a", tc.a)), indexer.Add(report("b", tc.b))); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time it is known
				compare(tc.a, tc.b)
			}
			if diff := cmp.Diff(tc.want, events.events); diff != "" {
				t.Error(diff)
			}
			if got, want := len(c.duplicates), min(len(tc.want), 1); got != want {
				t.Errorf("%d identities are counted, want %d", got, want)
			}
			if err := indexer.Update(report("b", "wwn:other")); err != nil {
				t.Fatal(err)
			}
			compare(tc.b)
			if len(c.duplicates) > 0 {
				t.Errorf("still counted when the clone is gone: %v", c.duplicates)
			}
		})
	}
}

// TestCloneOfALostDisk: a disk of another machine with the same serial number neither blocks the
// tombstone of a lost disk nor resolves it.
func TestCloneOfALostDisk(t *testing.T) {
	t.Parallel()
	c, nodes := ofDisks()
	since := metav1.Now()
	theirs := ownedVolume("theirs", "b", "vendor:nvme.1ae0-1@m2")
	theirs.CreationTimestamp = metav1.NewTime(since.Add(time.Minute))
	err := errors.Join(
		nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}),
		c.volumes.GetIndexer().Add(ownedVolume("lost", "a", "vendor:nvme.1ae0-1@m1")),
		c.volumes.GetIndexer().Add(theirs),
		c.ReportInformer.GetIndexer().Add(&stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: stowage.LocalDiskReportSpec{NodeName: "b", Page: 1},
			Status: stowage.LocalDiskReportStatus{Entries: []stowage.Entry{{Identity: "vendor:nvme.1ae0-1@m2", Volume: "theirs", State: stowage.EntryBound}}},
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.otherUse("vendor:nvme.1ae0-1@m1", "a", "uid"); got != "" {
		t.Errorf("the lost disk gets no tombstone, as %s", got)
	}
	if c.resolved(stowage.Tombstone{Identity: "vendor:nvme.1ae0-1@m1", VolumeUID: "uid", Since: &since}, "a") {
		t.Error("the volume of another machine's disk takes the tombstone lost")
	}
}
