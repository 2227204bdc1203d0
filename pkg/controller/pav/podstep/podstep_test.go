// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package podstep_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
)

func TestResultOf(t *testing.T) {
	t.Parallel()
	reported := func(state helperpod.State, r report.Report) helperpod.Outcome {
		return helperpod.Outcome{State: state, Report: &r, Message: "why"}
	}
	whole := report.Report{Handle: new("h"), Capacity: new("1Gi"), Reschedule: true}
	for name, tc := range map[string]struct {
		outcome helperpod.Outcome
		want    *stowage.PavStepResult
	}{
		"running":                       {helperpod.Outcome{State: helperpod.Running}, nil},
		"succeeded":                     {reported(helperpod.Succeeded, whole), &stowage.PavStepResult{Succeeded: true, Message: "why", Handle: new("h"), Capacity: new("1Gi")}},
		"failed":                        {reported(helperpod.Failed, whole), &stowage.PavStepResult{Message: "why", Reschedule: true}},
		"disrupted":                     {reported(helperpod.Disrupted, whole), &stowage.PavStepResult{Message: "why", Reschedule: true}},
		"without a report":              {helperpod.Outcome{State: helperpod.Unknown, Message: "why"}, &stowage.PavStepResult{Message: "why"}},
		"a handle that is not reported": {reported(helperpod.Succeeded, report.Report{Problems: []string{"/pav/handle: is a directory"}}), &stowage.PavStepResult{Message: "/pav/handle: is a directory"}},
		"a volume is not expected":      {reported(helperpod.Succeeded, report.Report{Problems: []string{"/pav/volume: is a socket"}}), &stowage.PavStepResult{Succeeded: true, Message: "why"}},
		"a handle that is too long":     {reported(helperpod.Succeeded, report.Report{Handle: new(strings.Repeat("h", 129))}), &stowage.PavStepResult{Message: "/pav/handle has 129 bytes, must have at most 128"}},
		"a capacity that is too long":   {reported(helperpod.Succeeded, report.Report{Capacity: new(strings.Repeat("1", 65))}), &stowage.PavStepResult{Message: "/pav/capacity has 65 bytes, must have at most 64"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, podstep.ResultOf(tc.outcome)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
