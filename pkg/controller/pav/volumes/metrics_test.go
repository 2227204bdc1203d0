// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
)

func TestFailingOf(t *testing.T) {
	t.Parallel()
	condition := func(kind string, status metav1.ConditionStatus, reason rules.Reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status, Reason: string(reason), Message: message}}
	}
	provisioned := func(reason rules.Reason, message string) []metav1.Condition {
		return condition(stowage.ConditionProvisioned, metav1.ConditionFalse, reason, message)
	}
	failed := &stowage.PavVolumeError{Reason: string(rules.CreationFailed)}
	notDeleted := &stowage.PavVolumeError{Reason: string(rules.DeletionFailed)}
	for name, tc := range map[string]struct {
		status stowage.PavVolumeStatus
		want   steps.Failing
	}{
		"new":                        {},
		"a pod runs":                 {stowage.PavVolumeStatus{Phase: stowage.PavVolumeCreating, Conditions: provisioned("Creating", "")}, steps.Failing{}},
		"a pod does not run":         {stowage.PavVolumeStatus{Phase: stowage.PavVolumeCreating, Conditions: provisioned(rules.PodNotRunning, "no image")}, steps.Failing{Operation: "create", Reason: "PodNotRunning"}},
		"another attempt":            {stowage.PavVolumeStatus{Phase: stowage.PavVolumeCreating, Failures: 3, LastError: failed, Conditions: provisioned("Creating", "")}, steps.Failing{Operation: "create", Reason: "CreationFailed"}},
		"provisioned after failures": {stowage.PavVolumeStatus{Phase: stowage.PavVolumeProvisioned, LastError: failed, Conditions: condition(stowage.ConditionProvisioned, metav1.ConditionTrue, "Provisioned", "")}, steps.Failing{}},
		"not expanded":               {stowage.PavVolumeStatus{Phase: stowage.PavVolumeProvisioned, Conditions: condition(stowage.ConditionProvisioned, metav1.ConditionTrue, rules.NoExpansion, "larger")}, steps.Failing{}},
		"retained":                   {stowage.PavVolumeStatus{Phase: stowage.PavVolumeProvisioned, Conditions: provisioned(rules.Kept, "kept")}, steps.Failing{}},
		"its PersistentVolume is missing": {
			stowage.PavVolumeStatus{Phase: stowage.PavVolumeProvisioned, Conditions: provisioned(rules.Missing, "removed")}, steps.Failing{Operation: "create", Reason: "PersistentVolumeMissing"},
		},
		"not reverted":           {stowage.PavVolumeStatus{Phase: stowage.PavVolumeReverting, Failures: 1, DeletionFailures: 2, LastError: notDeleted, Conditions: provisioned("Reverting", "")}, steps.Failing{Operation: "delete", Reason: "DeletionFailed"}},
		"abandoned":              {stowage.PavVolumeStatus{Phase: stowage.PavVolumeReverting, Conditions: provisioned(rules.Abandoned, "the claim is gone")}, steps.Failing{}},
		"another deletion":       {stowage.PavVolumeStatus{Phase: stowage.PavVolumeDeleting, DeletionFailures: 1, LastError: notDeleted}, steps.Failing{Operation: "delete", Reason: "DeletionFailed"}},
		"deletion waits":         {stowage.PavVolumeStatus{Phase: stowage.PavVolumeProvisioned, Conditions: condition(stowage.ConditionDeletable, metav1.ConditionFalse, rules.Staged, "on n1")}, steps.Failing{Operation: "delete", Reason: "VolumeStaged"}},
		"deletion after success": {stowage.PavVolumeStatus{Phase: stowage.PavVolumeDeleting, LastError: failed}, steps.Failing{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := failingOf(&tc.status); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestObservations: each helper pod is observed once, with its outcome, and each new PersistentVolume once.
// It is not parallel: the metrics are the process's.
func TestObservations(t *testing.T) {
	before := observations(t)
	c := newCluster(t, "ns")
	c.failing["creation"] = 1
	c.settle()
	c.failing["deletion"] = 2
	c.remove(claimKey)
	c.settle()
	got := observations(t)
	for key, n := range before {
		if got[key] -= n; got[key] == 0 {
			delete(got, key)
		}
	}
	want := map[string]uint64{
		"Validation succeeded": 2, "Creation failed": 1, "Creation succeeded": 1,
		"Deletion failed": 2, "Deletion succeeded": 2, // after the failed attempt, and of the volume
		"provisioned": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// observations returns the numbers of observed steps by step and outcome, and of new PersistentVolumes.
func observations(t *testing.T) map[string]uint64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			switch family.GetName() {
			case "stowage_controller_pav_step_duration_seconds":
				labels := map[string]string{}
				for _, label := range metric.GetLabel() {
					labels[label.GetName()] = label.GetValue()
				}
				counts[labels["step"]+" "+labels["outcome"]] = metric.GetHistogram().GetSampleCount()
			case "stowage_controller_pav_provisioning_duration_seconds":
				counts["provisioned"] = metric.GetHistogram().GetSampleCount()
			}
		}
	}
	return counts
}
