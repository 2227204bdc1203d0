// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss_test

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestHeartbeatMissing: a provisioner that has reported to be ready does not renew its Lease.
func TestHeartbeatMissing(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), nil, "a")
	node, seconds, now := s.Name("a"), int32(1), metav1.NowMicro()
	report, err := s.reports.Create(s.Context(), &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Client.CoordinationV1().Leases(diskreports.HeartbeatNamespace).Create(s.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	meta.SetStatusCondition(&report.Status.Conditions, metav1.Condition{Type: stowage.ConditionReady, Status: metav1.ConditionTrue, Reason: "DirectoriesRead"})
	if _, err := s.reports.UpdateStatus(s.Context(), report, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), s.Timeout)
	defer cancel()
	_, err = await.Object(ctx, s.reports, node, func(report *stowage.LocalDiskReport) bool {
		c := meta.FindStatusCondition(report.Status.Conditions, stowage.ConditionReady)
		return c != nil && c.Status == metav1.ConditionUnknown && c.Reason == stowage.ReasonNoHeartbeat
	})
	if err != nil {
		t.Error(err)
	}
}
