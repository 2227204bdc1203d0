// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/provisioners"
)

// TestOwnControllers tests controllers with other settings, that are killed
// or replicated, one after the other on their own cluster.
func TestOwnControllers(t *testing.T) {
	t.Parallel()
	e := fixture.NewOn(t, audit.Config())
	if err := provisioners.Apply(e.Context(), e.Cluster); err != nil {
		t.Fatal(err)
	}
	if err := grant(e.Context(), e.Cluster); err != nil {
		t.Fatal(err)
	}
	t.Run("dry run", func(t *testing.T) { dryRun(t, e.Sibling(t)) })
	t.Run("budget", func(t *testing.T) { budget(t, e.Sibling(t)) })
	t.Run("leader killed", func(t *testing.T) { leaderKilled(t, e.Sibling(t)) })
	t.Run("killed after each write", func(t *testing.T) { killedAfterEachWrite(t, e.Sibling(t)) })
	t.Run("one identity on two nodes", func(t *testing.T) { oneIdentity(t, e.Sibling(t)) })
	t.Run("reports of deleted nodes", func(t *testing.T) { collected(t, e.Sibling(t)) })
	t.Run("tombstones of an earlier version", func(t *testing.T) { earlierTombstones(t, e.Sibling(t)) })
}

// run starts a controller, which is killed after the test unless it has ended.
func run(t *testing.T, e *fixture.Env, name, settings string) *cluster.Process {
	t.Helper()
	process, err := start(e.Cluster, name, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
	})
	return process
}

// dryRun: events report the actions, and nothing is written.
func dryRun(t *testing.T, e *fixture.Env) {
	s := newSite(t, e, asks("Release", "1s"), "a")
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	free := s.volume("a", "disk2", corev1.PersistentVolumeReclaimDelete)
	process := run(t, e, "dry", "nodeLoss: {dryRun: true}\nleaderElection: {leaderElect: false}\n")
	s.lose("a")
	s.WaitEvent(s.Namespace, "data-db-0", "WouldReleaseClaim", "dry run", "with pod db-0", "then the volume would be removed")
	s.WaitEvent(s.Namespace, "db-0", "WouldReleaseClaim", "dry run")
	s.WaitEvent(metav1.NamespaceDefault, before.pv.Name, "WouldReleaseClaim", "dry run")
	s.WaitEvent(metav1.NamespaceDefault, free.Name, "WouldRemoveVolume", "dry run")
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pv := range []*corev1.PersistentVolume{before.pv, free} {
		now, err := s.Client.CoreV1().PersistentVolumes().Get(s.Context(), pv.Name, metav1.GetOptions{})
		if err != nil || now.DeletionTimestamp != nil || now.Annotations[wellknown.LostAnnotation] != "" {
			t.Errorf("volume %s was touched: %v, %v", pv.Name, now, err)
		}
	}
	claim, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Get(s.Context(), "data-db-0", metav1.GetOptions{})
	if err != nil || claim.UID != before.claim.UID || claim.DeletionTimestamp != nil {
		t.Errorf("the claim was touched: %v, %v", claim, err)
	}
	if tombstones := s.tombstonesOf(s.Name("a")); len(tombstones) > 0 {
		t.Errorf("there are tombstones: %v", tombstones)
	}
}

// budget: two claims are released in a minute, and the third waits, also for a
// controller that has just started.
func budget(t *testing.T, e *fixture.Env) {
	const settings = "nodeLoss: {releasesPerMinute: 2}\nleaderElection: {leaderElect: false}\n"
	s := newSite(t, e, asks("Release", "1s"), "a")
	s.volume("a", "disk2", corev1.PersistentVolumeReclaimDelete)
	s.volume("a", "disk3", corev1.PersistentVolumeReclaimDelete)
	s.set("db", 3, nil)
	all := map[string]*placed{}
	for _, name := range []string{"db-0", "db-1", "db-2"} {
		all["data-"+name] = s.waitPlaced(name, "data-"+name, nil)
	}
	left := func() (n int) {
		for name, before := range all {
			if now := s.SeenPVC(name); now != nil && now.UID == before.claim.UID && now.DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	process := run(t, e, "first", settings)
	s.lose("a")
	s.WaitEvent(s.Namespace, "", "ReleaseThrottled", "2 claims are released per minute")
	s.Wait("two of three claims to be released", func() bool { return left() <= 1 })
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	run(t, e, "second", settings)
	// It has seen the third claim's volume once it has handled a later one.
	later := s.makeVolume("a", "disk4", "wwn:"+s.Name("a")+"-disk4", corev1.PersistentVolumeReclaimDelete)
	s.WaitEvent(metav1.NamespaceDefault, later.Name, "VolumeRemoved", "tombstone")
	s.waitGone(later, stowage.TombstonePublished)
	var releases []time.Time
	for _, before := range all {
		if at := s.released(before.pv); !at.IsZero() {
			releases = append(releases, at)
		}
	}
	slices.SortFunc(releases, time.Time.Compare)
	if len(releases) < 2 {
		t.Errorf("claims were released at %v, want two at least", releases)
	}
	// On a machine that stalled the third one's delay may have ended.
	if len(releases) > 2 && releases[2].Sub(releases[0]) < rules.Window {
		t.Errorf("claims were released at %v, want no three in %s", releases, rules.Window)
	}
}

// collected: a report that has not been written for long is deleted with its node, unless it has
// the record of a disk.
func collected(t *testing.T, e *fixture.Env) {
	s := newSite(t, e, nil)
	ctx, cancel := context.WithTimeout(s.Context(), s.Timeout)
	defer cancel()
	long := metav1.NewTime(time.Now().Add(-2 * time.Hour))
	left := func(name string, stones ...stowage.Tombstone) *stowage.LocalDiskReport {
		node := s.Name(name)
		report, err := s.reports.Create(ctx, &stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1},
		}, metav1.CreateOptions{})
		if err == nil {
			report.Status.LastTransitionTime, report.Status.Tombstones = &long, stones
			report, err = s.reports.UpdateStatus(ctx, report, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	kept := left("a", stowage.Tombstone{Identity: "wwn:1", State: stowage.TombstonePublished})
	goes := left("b")
	watching, err := s.reports.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + goes.Name, ResourceVersion: goes.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	run(t, e, "collector", "leaderElection: {leaderElect: false}\n")
	for change := range watching.ResultChan() {
		if change.Type == watch.Deleted {
			break
		}
	}
	if _, err := s.reports.Get(ctx, goes.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the report of a deleted node: %v, want it deleted", err)
	}
	if _, err := s.reports.Get(ctx, kept.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the report of a node that remembers a disk: %v", err)
	}
}

// earlierTombstones: a controller moves the tombstones that an earlier version wrote into a report. One
// of them replaces that of a former volume of its disk.
func earlierTombstones(t *testing.T, e *fixture.Env) {
	s := newSite(t, e, nil)
	ctx, cancel := context.WithTimeout(s.Context(), s.Timeout)
	defer cancel()
	node, then := s.Name("a"), new(metav1.NewTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.Local)))
	want := []stowage.Tombstone{
		{Identity: "wwn:1", Class: s.class, Name: "disk1", Volume: "pv-1", VolumeUID: "uid-1", Generation: 7, State: stowage.TombstonePublished, Since: then, Released: then},
		{Identity: "wwn:2", State: stowage.TombstoneRetained},
	}
	report, err := s.reports.Create(ctx, &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{wellknown.TombstonesLabel: wellknown.TombstonesValue}},
		Spec:       stowage.LocalDiskReportSpec{NodeName: node, Page: 1, Tombstones: want},
	}, metav1.CreateOptions{})
	if err != nil || len(report.Spec.Tombstones) != len(want) {
		t.Fatalf("made %+v, %v", report, err)
	}
	former := want[0]
	former.VolumeUID, former.Since = "former", new(metav1.NewTime(then.Add(-time.Hour)))
	if _, err := s.tombstones.Create(ctx, &stowage.LocalDiskTombstone{
		ObjectMeta: metav1.ObjectMeta{Name: stowage.TombstoneName(node, former.Identity)},
		Spec:       stowage.LocalDiskTombstoneSpec{NodeName: node, Tombstone: former},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	run(t, e, "mover", "leaderElection: {leaderElect: false}\n")
	if _, err := await.Object(ctx, s.reports, node, func(r *stowage.LocalDiskReport) bool {
		return len(r.Spec.Tombstones) == 0 && r.Labels[wellknown.TombstonesLabel] == ""
	}); err != nil {
		t.Fatal(err)
	}
	var got []stowage.Tombstone
	for _, tombstone := range s.tombstonesOf(node) {
		got = append(got, tombstone.Spec.Tombstone)
	}
	slices.SortFunc(got, func(a, b stowage.Tombstone) int { return strings.Compare(a.Identity, b.Identity) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// leaderKilled: during a delay, which is longer than a takeover after a kill. The other replica
// releases the claim after the delay, not before.
func leaderKilled(t *testing.T, e *fixture.Env) {
	const settings = "leaderElection: {leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 1s}\n"
	const delay = 20 * time.Second
	s := newSite(t, e, asks("Release", delay.String()), "a", "b")
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	first := run(t, e, "leader", settings)
	ctx, cancel := context.WithTimeout(s.Context(), s.Timeout)
	defer cancel()
	leases, err := s.Client.CoordinationV1().Leases("stowage-system").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=stowage-controller"})
	if err != nil {
		t.Fatal(err)
	}
	if _, there := <-leases.ResultChan(); !there { // it is created by who holds it
		t.Fatal("no controller leads")
	}
	leases.Stop()
	run(t, e, "follower", settings)
	lost := time.Now()
	s.lose(before.node(s))
	s.WaitEvent(s.Namespace, "data-db-0", "VolumeLost", "will be deleted") // once it is written down
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	s.WaitEvent(s.Namespace, "data-db-0", "ReleasingClaim", before.pv.Name)
	s.waitPlaced("db-0", "data-db-0", before)
	s.waitGone(before.pv, stowage.TombstonePublished)
	if waited := s.released(before.pv).Sub(lost.Truncate(time.Second)); waited < delay {
		t.Errorf("the claim was released after %s, want %s at least", waited, delay)
	}
}

// killedAfterEachWrite: every controller is killed after its first write. The final state is the
// same as with one controller.
func killedAfterEachWrite(t *testing.T, e *fixture.Env) {
	s := newSite(t, e, asks("Release", "1s"), "a", "b")
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	lives := startKilled(s)
	s.lose(before.node(s))
	s.waitPlaced("db-0", "data-db-0", before)
	s.waitGone(before.pv, stowage.TombstonePublished)
	// Mark, release, claim, tombstone, volume, finalizer; and the pod, as a rule.
	if writes := lives.stop(); len(writes) < 6 {
		t.Errorf("controllers died after %q, want one after each step at least", writes)
	} else {
		t.Logf("controllers died after %q", writes)
	}
}
