// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package stagings

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/metrics"
)

func TestFailingOf(t *testing.T) {
	t.Parallel()
	condition := func(kind string, reason rules.Reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: string(reason), Message: message}}
	}
	failed := &stowage.PavVolumeError{Reason: string(rules.StagingFailed)}
	notUnstaged := &stowage.PavVolumeError{Reason: string(rules.UnstagingFailed)}
	for name, tc := range map[string]struct {
		status stowage.PavStagingStatus
		want   steps.Failing
	}{
		"new":                  {},
		"a pod runs":           {stowage.PavStagingStatus{Phase: stowage.PavStagingStaging, Conditions: condition(stowage.ConditionStaged, "Staging", "")}, steps.Failing{}},
		"waits for a node":     {stowage.PavStagingStatus{Phase: stowage.PavStagingPending, Conditions: condition(stowage.ConditionStaged, rules.StagedElsewhere, "on n1")}, steps.Failing{Operation: "stage", Reason: "StagedOnOtherNode"}},
		"another attempt":      {stowage.PavStagingStatus{Phase: stowage.PavStagingStaging, Failures: 2, LastError: failed}, steps.Failing{Operation: "stage", Reason: "StagingFailed"}},
		"staged after failure": {stowage.PavStagingStatus{Phase: stowage.PavStagingStaged, LastError: failed}, steps.Failing{}},
		"kubelet unstages":     {stowage.PavStagingStatus{Phase: stowage.PavStagingUnstaging, Conditions: condition(stowage.ConditionStaged, rules.Unrequested, "unstages")}, steps.Failing{}},
		"not cleared":          {stowage.PavStagingStatus{Phase: stowage.PavStagingClearing, Conditions: condition(stowage.ConditionUnstageable, rules.NotCleared, "mounts")}, steps.Failing{Operation: "unstage", Reason: "NodeNotCleared"}},
		"another unstaging":    {stowage.PavStagingStatus{Phase: stowage.PavStagingUnstaging, Failures: 1, UnstagingFailures: 1, LastError: notUnstaged}, steps.Failing{Operation: "unstage", Reason: "UnstagingFailed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := failingOf(&tc.status); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestObserve: a staging pod is observed once, when it is ready or has failed before, and not when it is removed.
// It is not parallel: the metrics are the process's.
func TestObserve(t *testing.T) {
	metrics.RegisterController()
	now := time.Unix(1000, 0)
	c := &Controller{Steps: &steps.Steps{Now: func() time.Time { return now }}}
	step := func(name stowage.PavStepName, result *stowage.PavStepResult) *stowage.PavVolumeStep {
		return &stowage.PavVolumeStep{Name: name, StartTime: metav1.NewTime(now.Add(-time.Second)), Result: result}
	}
	failed, succeeded := &stowage.PavStepResult{}, &stowage.PavStepResult{Succeeded: true}
	status := func(phase stowage.PavStagingPhase, step *stowage.PavVolumeStep) stowage.PavStagingStatus {
		return stowage.PavStagingStatus{Phase: phase, Step: step}
	}
	for name, tc := range map[string]struct {
		before, after stowage.PavStagingStatus
		pod           *podstep.Pod
		want          map[string]uint64
	}{
		"ready": {
			before: status(stowage.PavStagingStaging, step(stowage.PavStepStaging, nil)), after: status(stowage.PavStagingStaged, step(stowage.PavStepStaging, nil)),
			want: map[string]uint64{"Staging succeeded": 1},
		},
		"ended with success": {
			before: status(stowage.PavStagingStaging, step(stowage.PavStepStaging, nil)), after: status(stowage.PavStagingStaging, step(stowage.PavStepStaging, succeeded)),
			want: map[string]uint64{"Staging succeeded": 1},
		},
		"staged after that": {before: status(stowage.PavStagingStaging, step(stowage.PavStepStaging, succeeded)), after: status(stowage.PavStagingStaged, nil)},
		"failed": {
			before: status(stowage.PavStagingStaging, step(stowage.PavStepStaging, nil)), after: status(stowage.PavStagingStaging, step(stowage.PavStepStaging, failed)), pod: &podstep.Pod{Result: failed},
			want: map[string]uint64{"Staging failed": 1},
		},
		"timed out": {
			before: status(stowage.PavStagingStaging, step(stowage.PavStepStaging, nil)), after: status(stowage.PavStagingStaging, step(stowage.PavStepStaging, failed)), pod: &podstep.Pod{},
			want: map[string]uint64{"Staging interrupted": 1},
		},
		"failed after it was ready": {before: status(stowage.PavStagingStaged, step(stowage.PavStepStaging, nil)), after: status(stowage.PavStagingStaged, step(stowage.PavStepStaging, failed)), pod: &podstep.Pod{Result: failed}},
		"removed":                   {before: status(stowage.PavStagingUnstaging, step(stowage.PavStepStaging, nil)), after: status(stowage.PavStagingUnstaging, step(stowage.PavStepStaging, failed))},
		"unstaged": {
			before: status(stowage.PavStagingUnstaging, step(stowage.PavStepUnstaging, nil)), after: status(stowage.PavStagingUnstaging, step(stowage.PavStepUnstaging, succeeded)),
			want: map[string]uint64{"Unstaging succeeded": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			legacyregistry.Reset()
			s := &situation{Facts: rules.Facts{Staging: &stowage.PavStaging{Status: tc.before}, Pod: tc.pod}}
			c.observe(s, &stowage.PavStaging{Status: tc.after})
			families, err := legacyregistry.DefaultGatherer.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]uint64{}
			for _, family := range families {
				if family.GetName() != "stowage_controller_pav_step_duration_seconds" {
					continue
				}
				for _, metric := range family.GetMetric() { // labels are sorted: outcome, step
					got[metric.GetLabel()[1].GetValue()+" "+metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleCount()
				}
			}
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
