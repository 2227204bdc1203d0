// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package helperpod

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/pav/report"
)

// start is when the containers of the tests' pods start.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(seconds int) metav1.Time {
	return metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))
}

// endedPod is a pod whose main container ended after 100 seconds with an exit code.
type endedPod struct{ *corev1.Pod }

func ended(phase corev1.PodPhase, exitCode int32, message string) endedPod {
	reason := "Completed"
	if exitCode != 0 {
		reason = "Error"
	}
	terminated := func(code int32, reason, message string, at int) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message, FinishedAt: after(at)}}
	}
	return endedPod{&corev1.Pod{
		Spec: corev1.PodSpec{
			NodeName:       "node-1",
			InitContainers: []corev1.Container{{Name: ReporterName, RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}, {Name: "prepare"}},
			Containers:     []corev1.Container{{Name: "main"}},
		},
		Status: corev1.PodStatus{
			Phase: phase,
			InitContainerStatuses: []corev1.ContainerStatus{
				{Name: ReporterName, State: terminated(1, "Error", message, 102)}, // its exit code decides nothing
				{Name: "prepare", State: terminated(0, "Completed", "", 50)},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: terminated(exitCode, reason, "", 100)}},
		},
	}}
}

// deleted is after a deletion request at a time, with a grace period.
func (p endedPod) deleted(at int, grace int64) endedPod {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(after(at+int(grace))), &grace
	return p
}

func (p endedPod) disrupted(at int) endedPod {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: after(at), Reason: "EvictionByEvictionAPI", Message: "evicted",
	})
	return p
}

func (p endedPod) with(change func(*corev1.Pod)) endedPod {
	change(p.Pod)
	return p
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	whole := report.Report{Handle: new("h"), Error: "no space", Reschedule: true}
	message, err := report.Encode(whole, report.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	const (
		running   = corev1.PodRunning
		succeeded = corev1.PodSucceeded
		failed    = corev1.PodFailed

		deletedFirst   = "the pod was deleted before its containers ended"
		disruptedFirst = "the pod was disrupted before its containers ended: EvictionByEvictionAPI: evicted"
	)
	for name, test := range map[string]struct {
		pod  endedPod
		want Outcome
	}{
		"not scheduled yet": {
			pod:  endedPod{&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}},
			want: Outcome{State: Running},
		},
		"deleted before it was scheduled": {
			pod:  endedPod{&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}}.deleted(1, 0),
			want: Outcome{State: Disrupted, Message: deletedFirst},
		},
		"running, whatever the reporter left":  {pod: ended(running, 0, message), want: Outcome{State: Running}},
		"being deleted while containers run":   {pod: ended(running, 0, message).deleted(99, 30), want: Outcome{State: Running}},
		"succeeded":                            {pod: ended(succeeded, 0, message), want: Outcome{State: Succeeded, Report: &whole}},
		"deleted long after it succeeded":      {pod: ended(succeeded, 0, message).deleted(161, 30), want: Outcome{State: Succeeded, Report: &whole}},
		"deleted with no grace after that":     {pod: ended(succeeded, 0, message).deleted(161, 0), want: Outcome{State: Succeeded, Report: &whole}},
		"deleted about when it succeeded":      {pod: ended(succeeded, 0, message).deleted(160, 30), want: Outcome{State: Disrupted, Report: &whole, Message: deletedFirst}},
		"exits with 0 on the SIGTERM":          {pod: ended(succeeded, 0, message).deleted(99, 30), want: Outcome{State: Disrupted, Report: &whole, Message: deletedFirst}},
		"evicted":                              {pod: ended(succeeded, 0, message).disrupted(98).deleted(99, 30), want: Outcome{State: Disrupted, Report: &whole, Message: disruptedFirst}},
		"evicted, and its containers fail":     {pod: ended(failed, 143, message).disrupted(98), want: Outcome{State: Disrupted, Report: &whole, Message: disruptedFirst}},
		"evicted long after it succeeded":      {pod: ended(succeeded, 0, message).disrupted(200), want: Outcome{State: Succeeded, Report: &whole}},
		"evicted late, deleted early":          {pod: ended(succeeded, 0, message).deleted(50, 300).disrupted(200), want: Outcome{State: Disrupted, Report: &whole, Message: disruptedFirst}},
		"a disruption that did not come about": {pod: ended(succeeded, 0, message).disrupted(98).with(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }), want: Outcome{State: Succeeded, Report: &whole}},
		"the node is gone, the containers are not known to have ended": {
			pod:  ended(failed, 0, "").disrupted(900).with(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }),
			want: Outcome{State: Disrupted, Message: disruptedFirst},
		},
		"the node is gone before kubelet wrote a status": {
			pod:  ended(failed, 0, "").disrupted(900).with(func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }),
			want: Outcome{State: Disrupted, Message: disruptedFirst},
		},
		"no report": {pod: ended(succeeded, 0, ""), want: Outcome{State: Unknown, Message: "the reporter left no report"}},
		"no reporter": {
			pod:  ended(succeeded, 0, message).with(func(p *corev1.Pod) { p.Status.InitContainerStatuses = nil }),
			want: Outcome{State: Unknown, Message: "the reporter left no report"},
		},
		"a report of an earlier run of the reporter does not count": {
			pod: ended(succeeded, 0, "").with(func(p *corev1.Pod) {
				s := &p.Status.InitContainerStatuses[0]
				s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: message}
			}),
			want: Outcome{State: Unknown, Message: "the reporter left no report"},
		},
		"a report that is cut": {pod: ended(succeeded, 0, message[:60]), want: Outcome{State: Unknown, Message: "the report is cut: 25 of 51 bytes are left"}},
		"a message that is no report": {
			pod:  ended(succeeded, 0, "oops"),
			want: Outcome{State: Unknown, Message: `the report is damaged: it does not begin with "stowage-pav-report/1"`},
		},
		"a container fails": {
			pod:  ended(failed, 3, message),
			want: Outcome{State: Failed, Report: &whole, Message: "container main ended with exit code 3 (Error): no space"},
		},
		"a container fails, and is deleted long after that": {
			pod:  ended(failed, 3, message).deleted(300, 30),
			want: Outcome{State: Failed, Report: &whole, Message: "container main ended with exit code 3 (Error): no space"},
		},
		"a container fails without report": {
			pod:  ended(failed, 137, ""),
			want: Outcome{State: Failed, Message: "container main ended with exit code 137 (Error); the reporter left no report"},
		},
		"an init container fails, the others never start": {
			pod: ended(failed, 0, message).deleted(200, 30).with(func(p *corev1.Pod) {
				p.Status.InitContainerStatuses[1].State.Terminated.ExitCode = 1
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
			}),
			want: Outcome{State: Failed, Report: &whole, Message: "container prepare ended with exit code 1 (Completed): no space"},
		},
		"the first of two that fail": {
			pod: ended(failed, 3, message).with(func(p *corev1.Pod) {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other"})
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "other", State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: 4, Reason: "OOMKilled", FinishedAt: after(90)},
				}})
			}),
			want: Outcome{State: Failed, Report: &whole, Message: "container other ended with exit code 4 (OOMKilled): no space"},
		},
		"the node rejects it": {
			pod: endedPod{&corev1.Pod{
				Spec:   corev1.PodSpec{NodeName: "node-1"},
				Status: corev1.PodStatus{Phase: failed, Reason: "OutOfcpu", Message: "Pod was rejected"},
			}},
			want: Outcome{State: Failed, Message: "OutOfcpu: Pod was rejected; the reporter left no report"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := test.pod.DeepCopy()
			if diff := cmp.Diff(test.want, OutcomeOf(test.pod.Pod)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.pod.Pod); diff != "" {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestReportOf: the errors are those of the report.
func TestReportOf(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]error{"": report.ErrMissing, "stowage-pav": report.ErrCut, "x": report.ErrDamaged} {
		if _, err := ReportOf(&ended(corev1.PodSucceeded, 0, message).Status); !errors.Is(err, want) {
			t.Errorf("message %q: error %v, want %v", message, err, want)
		}
	}
}
