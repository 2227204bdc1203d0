// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
)

// lease is the node's, nil if there is none.
func (e *env) lease() *coordinationv1.Lease {
	e.t.Helper()
	lease, err := e.api.CoordinationV1().Leases(diskreports.HeartbeatNamespace).Get(context.Background(), node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return lease
}

// beat has the provisioner send heartbeats until the returned function is called.
func (e *env) beat() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); e.provisioner.Heartbeats(ctx) }()
	e.pass(time.Second)
	return func() { cancel(); <-ended }
}

// page is the first page of the node's report.
func (e *env) page() *stowage.LocalDiskReport {
	e.t.Helper()
	report, err := e.reports.Get(context.Background(), node, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	return report
}

// silence does what the controller does when heartbeats are missing.
func (e *env) missHeartbeats() {
	e.t.Helper()
	report := e.page()
	meta.SetStatusCondition(&report.Status.Conditions, metav1.Condition{Type: stowage.ConditionReady, Status: metav1.ConditionUnknown, Reason: stowage.ReasonNoHeartbeat})
	if _, err := e.reports.UpdateStatus(context.Background(), report, metav1.UpdateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// status is that of a condition.
func (e *env) status(condition string) metav1.ConditionStatus {
	e.t.Helper()
	c := meta.FindStatusCondition(e.page().Status.Conditions, condition)
	if c == nil {
		return ""
	}
	return c.Status
}

func TestHeartbeats(t *testing.T) {
	inBubble(t, func(w *env) {
		w.start()
		defer w.beat()()
		first := w.lease()
		if first == nil || *first.Spec.HolderIdentity != node || *first.Spec.LeaseDurationSeconds != 80 || len(first.OwnerReferences) != 1 || first.OwnerReferences[0].UID != "first" {
			t.Fatalf("the Lease is %+v", first)
		}
		w.api.total()
		w.pass(time.Hour)
		if n := w.api.count("update leases"); n < 160 || n > 180 {
			t.Errorf("renewed %d times in an hour", n)
		}
		if age := time.Since(w.lease().Spec.RenewTime.Time); age > 22*time.Second {
			t.Errorf("renewed %s ago", age)
		}
		if err := w.api.CoordinationV1().Leases(diskreports.HeartbeatNamespace).Delete(context.Background(), node, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if w.lease() == nil {
			t.Error("the Lease was not made again")
		}
	})
}

// TestReportAfterSilence: the controller has set Ready to Unknown while no heartbeat came. The
// first one that does brings the provisioner's conditions back, in the report as well.
func TestReportAfterMissedHeartbeats(t *testing.T) {
	inBubble(t, func(w *env) {
		w.start()
		defer w.beat()()
		if got := w.status(stowage.ConditionReady); got != metav1.ConditionTrue {
			t.Fatalf("Ready is %q at first", got)
		}
		w.api.refuse(forbid("update", "leases"))
		w.pass(2 * time.Minute)
		w.missHeartbeats()
		w.pass(time.Minute)
		if got := w.status(stowage.ConditionReady); got != metav1.ConditionUnknown {
			t.Errorf("Ready is %q while no heartbeat can be sent", got)
		}
		w.api.refuse(nil)
		w.pass(30 * time.Second)
		if got := w.status(stowage.ConditionReady); got != metav1.ConditionTrue {
			t.Errorf("Ready is %q after the next heartbeat", got)
		}
		w.missHeartbeats() // by mistake: all heartbeats have come
		w.pass(2*reportRecheck + time.Minute)
		if got := w.status(stowage.ConditionReady); got != metav1.ConditionTrue {
			t.Errorf("Ready is %q after the report was looked at again", got)
		}
	})
}

// TestNotReadyWithoutReport: what an old report says of disks is believed as long as the
// provisioner is ready.
func TestNotReadyWithoutReport(t *testing.T) {
	refused := apierrors.NewForbidden(corev1.Resource("localdiskreports"), node, errors.New("by a policy"))
	inBubble(t, func(w *env) {
		w.reports.refused = refused
		w.start()
		if err := w.provisioner.Ready(""); err == nil || !strings.Contains(err.Error(), "report") {
			t.Errorf("ready although it has never written its report: %v", err)
		}
		if err := w.provisioner.Ready("fast"); err != nil {
			t.Errorf("the class is not: %v", err)
		}
		w.reports.refused = nil
		w.pass(time.Minute)
		if err := w.provisioner.Ready(""); err != nil {
			t.Errorf("not ready although the report is written: %v", err)
		}
		w.reports.refused = refused
		w.disks.add("disk1", "")
		w.look()
		if err := w.provisioner.Ready(""); err != nil {
			t.Errorf("not ready after one write that failed: %v", err)
		}
		w.pass(2 * time.Minute)
		if err := w.provisioner.Ready(""); err == nil || !strings.Contains(err.Error(), "by a policy") {
			t.Errorf("ready although the report cannot be written: %v", err)
		}
	})
}

// TestConditions: of the provisioner as a whole, with the times of their transitions and the
// generation of the report that they were written for.
func TestConditions(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.startBound()
		conditions := w.page().Status.Conditions
		for _, want := range []string{stowage.ConditionReady, stowage.ConditionDisksHealthy, stowage.ConditionConfigValid} {
			if c := meta.FindStatusCondition(conditions, want); c == nil || c.Status != metav1.ConditionTrue || c.LastTransitionTime.IsZero() || c.Reason == "" {
				t.Errorf("condition %s is %+v", want, c)
			}
		}
		before := meta.FindStatusCondition(conditions, stowage.ConditionConfigValid).LastTransitionTime
		w.reports.edit(func(r *stowage.LocalDiskReport) { r.Generation = 7 })
		w.disks.take("disk1")
		w.pass(time.Minute)
		healthy := meta.FindStatusCondition(w.page().Status.Conditions, stowage.ConditionDisksHealthy)
		if healthy.Status != metav1.ConditionFalse || healthy.Message != "Missing: 1" || healthy.ObservedGeneration != 7 || !healthy.LastTransitionTime.After(before.Time) {
			t.Errorf("DisksHealthy is %+v", healthy)
		}
		valid := meta.FindStatusCondition(w.page().Status.Conditions, stowage.ConditionConfigValid)
		if !valid.LastTransitionTime.Equal(&before) || valid.ObservedGeneration != 7 {
			t.Errorf("ConfigValid is %+v", valid)
		}
		w.reports.edit(func(r *stowage.LocalDiskReport) { r.Generation = 8 })
		w.pass(2 * reportRecheck)
		if got := meta.FindStatusCondition(w.page().Status.Conditions, stowage.ConditionReady).ObservedGeneration; got != 8 {
			t.Errorf("the observed generation is %d although nothing else has changed, want 8", got)
		}
	})
}

// TestSummaryOfCapacity: what volumes offer, which is less than what disks have.
func TestSummaryOfCapacity(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.add("disk1", "")
		w.start()
		w.phase(corev1.VolumeAvailable)
		if s := w.page().Status.Summary; s.Capacity.String() != "1Gi" || s.Free.String() != "1Gi" {
			t.Errorf("capacity %s, free %s, want 1Gi of both", &s.Capacity, &s.Free)
		}
		w.phase(corev1.VolumeBound)
		if s := w.page().Status.Summary; s.Capacity.String() != "1Gi" || !s.Free.IsZero() {
			t.Errorf("capacity %s, free %s, want 1Gi and none", &s.Capacity, &s.Free)
		}
	})
}
