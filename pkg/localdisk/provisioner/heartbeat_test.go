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
	"stowage.dev/stowage/pkg/localdisk/provisioner/status"
)

// lease returns the Lease of the node; nil if there is none.
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

// beat sends heartbeats until the returned function is called.
func (e *env) beat() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); e.provisioner.Heartbeats(ctx) }()
	e.pass(time.Second)
	return func() { cancel(); <-ended }
}

// page returns the first page of the node's report.
func (e *env) page() *stowage.LocalDiskReport {
	e.t.Helper()
	report, err := e.reports.Get(context.Background(), node, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	return report
}

// missHeartbeats sets Ready to Unknown, as the controller does when heartbeats are missing.
func (e *env) missHeartbeats() {
	e.t.Helper()
	report := e.page()
	meta.SetStatusCondition(&report.Status.Conditions, metav1.Condition{Type: stowage.ConditionReady, Status: metav1.ConditionUnknown, Reason: stowage.ReasonNoHeartbeat})
	if _, err := e.reports.UpdateStatus(context.Background(), report, metav1.UpdateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// status returns the status of a condition.
func (e *env) status(condition string) metav1.ConditionStatus {
	e.t.Helper()
	c := meta.FindStatusCondition(e.page().Status.Conditions, condition)
	if c == nil {
		return ""
	}
	return c.Status
}

func TestHeartbeats(t *testing.T) {
	inBubble(t, func(e *env) {
		e.start()
		defer e.beat()()
		first := e.lease()
		if first == nil || *first.Spec.HolderIdentity != node || *first.Spec.LeaseDurationSeconds != 80 || len(first.OwnerReferences) != 1 || first.OwnerReferences[0].UID != "first" {
			t.Fatalf("the Lease is %+v", first)
		}
		e.api.total()
		e.pass(time.Hour)
		if n := e.api.count("update leases"); n < 160 || n > 180 {
			t.Errorf("renewed %d times in an hour", n)
		}
		if age := time.Since(e.lease().Spec.RenewTime.Time); age > 22*time.Second {
			t.Errorf("renewed %s ago", age)
		}
		if err := e.api.CoordinationV1().Leases(diskreports.HeartbeatNamespace).Delete(context.Background(), node, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.pass(time.Minute)
		if e.lease() == nil {
			t.Error("the Lease was not created again")
		}
	})
}

// TestReportAfterMissedHeartbeats: the controller has set Ready to Unknown while heartbeats
// were missing. The next heartbeat restores the provisioner's conditions.
func TestReportAfterMissedHeartbeats(t *testing.T) {
	inBubble(t, func(e *env) {
		e.start()
		defer e.beat()()
		if got := e.status(stowage.ConditionReady); got != metav1.ConditionTrue {
			t.Fatalf("Ready is %q at first", got)
		}
		e.api.refuse(forbid("update", "leases"))
		e.pass(2 * time.Minute)
		e.missHeartbeats()
		e.pass(time.Minute)
		if got := e.status(stowage.ConditionReady); got != metav1.ConditionUnknown {
			t.Errorf("Ready is %q while no heartbeat can be sent", got)
		}
		e.api.refuse(nil)
		e.pass(30 * time.Second)
		if got := e.status(stowage.ConditionReady); got != metav1.ConditionTrue {
			t.Errorf("Ready is %q after the next heartbeat", got)
		}
		e.missHeartbeats() // by mistake: all heartbeats have come
		e.pass(2*status.RecheckInterval + time.Minute)
		if got := e.status(stowage.ConditionReady); got != metav1.ConditionTrue {
			t.Errorf("Ready is %q after the report was checked", got)
		}
	})
}

// TestNotReadyWithoutReport: other components trust the report while the provisioner is
// ready.
func TestNotReadyWithoutReport(t *testing.T) {
	refused := apierrors.NewForbidden(corev1.Resource("localdiskreports"), node, errors.New("by a policy"))
	inBubble(t, func(e *env) {
		e.reports.refuse(refused)
		e.start()
		if err := e.provisioner.Ready(""); err == nil || !strings.Contains(err.Error(), "report") {
			t.Errorf("ready although it has never written its report: %v", err)
		}
		if err := e.provisioner.Ready("fast"); err != nil {
			t.Errorf("the class is not ready: %v", err)
		}
		e.reports.refuse(nil)
		e.pass(time.Minute)
		if err := e.provisioner.Ready(""); err != nil {
			t.Errorf("not ready although the report is written: %v", err)
		}
		e.reports.refuse(refused)
		e.disks.add("disk1", "")
		e.look()
		if err := e.provisioner.Ready(""); err != nil {
			t.Errorf("not ready after one write that failed: %v", err)
		}
		e.pass(2 * time.Minute)
		if err := e.provisioner.Ready(""); err == nil || !strings.Contains(err.Error(), "by a policy") {
			t.Errorf("ready although the report cannot be written: %v", err)
		}
	})
}

// TestConditions: conditions have transition times and the observed generation of the report.
func TestConditions(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.startBound()
		conditions := e.page().Status.Conditions
		for _, want := range []string{stowage.ConditionReady, stowage.ConditionDisksHealthy, stowage.ConditionConfigValid} {
			if c := meta.FindStatusCondition(conditions, want); c == nil || c.Status != metav1.ConditionTrue || c.LastTransitionTime.IsZero() || c.Reason == "" {
				t.Errorf("condition %s is %+v", want, c)
			}
		}
		before := meta.FindStatusCondition(conditions, stowage.ConditionConfigValid).LastTransitionTime
		e.reports.edit(func(r *stowage.LocalDiskReport) { r.Generation = 7 })
		e.disks.take("disk1")
		e.pass(time.Minute)
		healthy := meta.FindStatusCondition(e.page().Status.Conditions, stowage.ConditionDisksHealthy)
		if healthy.Status != metav1.ConditionFalse || healthy.Message != "Missing: 1" || healthy.ObservedGeneration != 7 || !healthy.LastTransitionTime.After(before.Time) {
			t.Errorf("DisksHealthy is %+v", healthy)
		}
		valid := meta.FindStatusCondition(e.page().Status.Conditions, stowage.ConditionConfigValid)
		if !valid.LastTransitionTime.Equal(&before) || valid.ObservedGeneration != 7 {
			t.Errorf("ConfigValid is %+v", valid)
		}
		e.reports.edit(func(r *stowage.LocalDiskReport) { r.Generation = 8 })
		e.pass(2 * status.RecheckInterval)
		if got := meta.FindStatusCondition(e.page().Status.Conditions, stowage.ConditionReady).ObservedGeneration; got != 8 {
			t.Errorf("the observed generation is %d although nothing else has changed, want 8", got)
		}
	})
}

// TestSummaryOfCapacity: it adds up the capacity of volumes, which is less than the size of disks.
func TestSummaryOfCapacity(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.add("disk1", "")
		e.start()
		e.phase(corev1.VolumeAvailable)
		if s := e.page().Status.Summary; s.Capacity.String() != "1Gi" || s.Free.String() != "1Gi" {
			t.Errorf("capacity %s, free %s, want 1Gi of both", &s.Capacity, &s.Free)
		}
		e.phase(corev1.VolumeBound)
		if s := e.page().Status.Summary; s.Capacity.String() != "1Gi" || !s.Free.IsZero() {
			t.Errorf("capacity %s, free %s, want 1Gi and none", &s.Capacity, &s.Free)
		}
	})
}
