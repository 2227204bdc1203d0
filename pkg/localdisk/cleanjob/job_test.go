// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanjob

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

func order(id disk.Identity) *Order {
	return &Order{
		Node: "n1", HostDir: "/mnt/fast", Volume: "pv1", VolumeUID: "9d4b6b1e-5f0e-4c5e-8c3a-0a3c6a0f0001", Key: disk.Key{Class: "fast", Name: "disk1"},
		Mode: disk.Filesystem, Identity: id, Attempt: "0123456789abcdef",
	}
}

// TestJobRights: the rights of a Job, by what it cleans.
func TestJobRights(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		identity   disk.Identity
		privileged bool
		volumes    []string
		mounts     []string
	}{
		"a device":      {deviceIdentity, true, []string{"/mnt/fast", "/dev"}, []string{"/mnt/fast ro", "/dev"}},
		"a partition":   {"part:wwn:1:2:3", true, []string{"/mnt/fast", "/dev"}, []string{"/mnt/fast ro", "/dev"}},
		"a file system": {identity, false, []string{"/mnt/fast", TicketFolder}, []string{"/mnt/fast", TicketFolder + " ro"}},
		"a directory":   {"dir:u:1:2", false, []string{"/mnt/fast", TicketFolder}, []string{"/mnt/fast", TicketFolder + " ro"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := order(test.identity).Job(Settings{Namespace: "ns", Image: "i"}).Spec.Template.Spec
			var volumes, mounts []string
			for _, v := range pod.Volumes {
				volumes = append(volumes, v.HostPath.Path)
			}
			for _, m := range pod.Containers[0].VolumeMounts {
				if m.ReadOnly {
					m.MountPath += " ro"
				}
				mounts = append(mounts, m.MountPath)
			}
			if diff := cmp.Diff(test.volumes, volumes) + cmp.Diff(test.mounts, mounts); diff != "" {
				t.Error(diff)
			}
			security := pod.Containers[0].SecurityContext
			if *security.Privileged != test.privileged || !test.privileged && !slices.Contains(security.Capabilities.Drop, "ALL") {
				t.Errorf("security context %+v", security)
			}
			if *pod.AutomountServiceAccountToken || pod.HostPID || pod.HostNetwork || pod.HostIPC || pod.NodeName != "n1" || pod.RestartPolicy != corev1.RestartPolicyNever {
				t.Errorf("pod %+v", pod)
			}
		})
	}
}

func TestJobTerms(t *testing.T) {
	t.Parallel()
	o := order(identity)
	job := o.Job(Settings{Namespace: "ns", Image: "i"})
	if *job.Spec.BackoffLimit != 0 || job.Spec.ActiveDeadlineSeconds != nil || *job.Spec.TTLSecondsAfterFinished != keptFinished {
		t.Errorf("%+v", job.Spec)
	}
	if faults := validation.IsValidLabelValue(job.Name); len(faults) > 0 {
		t.Errorf("name %s, which pods have as a label: %q", job.Name, faults)
	}
	if got := job.Spec.Template.Spec.Tolerations; !cmp.Equal(got, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}) {
		t.Errorf("tolerations %v", got)
	}
	o.Timeout = 1500 * time.Millisecond
	tolerations := []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
	job = o.Job(Settings{Namespace: "ns", Image: "i", Tolerations: tolerations})
	if *job.Spec.ActiveDeadlineSeconds != 2 || !cmp.Equal(job.Spec.Template.Spec.Tolerations, tolerations) {
		t.Errorf("%+v", job.Spec)
	}
}

// TestArguments: any name or step is one argument, in which kubelet replaces nothing.
func TestArguments(t *testing.T) {
	t.Parallel()
	o := order(identity)
	o.Key.Name, o.Step, o.Command = "$(PATH) --ticket=/etc/passwd", "$$(HOME)", []string{"/opt/clean", "--all", "$1"}
	args := o.Job(Settings{}).Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{"--name=$$(PATH) --ticket=/etc/passwd", "--step=$$$$(HOME)", "$$1"} {
		if !slices.Contains(args, want) {
			t.Errorf("%q lacks %q", args, want)
		}
	}
	if at := slices.Index(args, "--"); at < 0 || !cmp.Equal(args[at+1:], []string{"/opt/clean", "--all", "$$1"}) {
		t.Errorf("%q does not end in the command", args)
	}
}

func job(name string, conditions ...batchv1.JobCondition) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: batchv1.JobStatus{Conditions: conditions}}
}

func condition(kind batchv1.JobConditionType, reason string) batchv1.JobCondition {
	return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: "as the Job controller says"}
}

func pod(of string, phase corev1.PodPhase, state corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: of + "-x", Labels: map[string]string{batchv1.JobNameLabel: of}},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{State: state}}},
	}
}

func ends(reason string, code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Message: message}}
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func TestStatusOf(t *testing.T) {
	t.Parallel()
	failed, complete := condition(batchv1.JobFailed, "BackoffLimitExceeded"), condition(batchv1.JobComplete, "")
	evicted := pod("j", corev1.PodFailed, ends("Error", 137, `{"step":"zero 1:4/8"}`))
	evicted.Status.Reason, evicted.Status.Message = "Evicted", "the node was low on memory"
	for name, test := range map[string]struct {
		job    *batchv1.Job
		pods   []*corev1.Pod
		state  stowage.CleaningJobState
		reason disk.Reason
		says   string
		step   string
	}{
		"just made":                         {job: job("j"), state: stowage.CleaningJobRunning},
		"creating its container":            {job: job("j"), pods: []*corev1.Pod{pod("j", corev1.PodPending, waiting("ContainerCreating"))}, state: stowage.CleaningJobRunning},
		"without its image":                 {job: job("j"), pods: []*corev1.Pod{pod("j", corev1.PodPending, waiting("ImagePullBackOff"))}, state: stowage.CleaningJobRunning, reason: "ImagePullBackOff", says: "j-x"},
		"running":                           {job: job("j"), pods: []*corev1.Pod{pod("j", corev1.PodRunning, corev1.ContainerState{})}, state: stowage.CleaningJobRunning},
		"its pod has ended, and it has not": {job: job("j"), pods: []*corev1.Pod{pod("j", corev1.PodFailed, ends("Error", 1, `{"reason":"Grown","step":"s"}`))}, state: stowage.CleaningJobRunning, step: "s"},
		"clean":                             {job: job("j", complete), pods: []*corev1.Pod{pod("j", corev1.PodSucceeded, ends("Completed", 0, `{"clean":true}`))}, state: stowage.CleaningJobSucceeded},
		"clean, and its pod is gone":        {job: job("j", complete), state: stowage.CleaningJobSucceeded},
		"succeeded without a result": {
			job: job("j", complete), pods: []*corev1.Pod{pod("j", corev1.PodSucceeded, ends("Completed", 0, "hello"))}, state: stowage.CleaningJobFailed, reason: NoResult, says: "hello",
		},
		"failed with a reason": {
			job: job("j", failed), pods: []*corev1.Pod{pod("j", corev1.PodFailed, ends("Error", 1, `{"reason":"VolumeInUse","message":"open","step":"s"}`))},
			state: stowage.CleaningJobFailed, reason: disk.VolumeInUse, says: "open", step: "s",
		},
		"killed for its memory": {
			job: job("j", failed), pods: []*corev1.Pod{pod("j", corev1.PodFailed, ends("OOMKilled", 137, `{"step":"s"}`))}, state: stowage.CleaningJobFailed, reason: "OOMKilled", says: "exit code 137", step: "s",
		},
		"killed while it wrote": {
			job: job("j", failed), pods: []*corev1.Pod{pod("j", corev1.PodFailed, ends("Error", 137, `{"step":"ha`))}, state: stowage.CleaningJobFailed, reason: "Error", says: `{"step":"ha`,
		},
		"evicted":               {job: job("j", failed), pods: []*corev1.Pod{evicted}, state: stowage.CleaningJobFailed, reason: "Evicted", says: "low on memory", step: "zero 1:4/8"},
		"not done in time":      {job: job("j", condition(batchv1.JobFailed, "DeadlineExceeded")), state: stowage.CleaningJobFailed, reason: "DeadlineExceeded", says: "cleanTimeout"},
		"failed, without a pod": {job: job("j", failed), state: stowage.CleaningJobFailed, reason: "BackoffLimitExceeded", says: "as the Job controller says"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := StatusOf(test.job, test.pods)
			var reason disk.Reason
			said := ""
			if got.Problem != nil {
				reason, said = got.Problem.Reason, got.Problem.Message
			}
			if got.State != test.state || reason != test.reason || !strings.Contains(said, test.says) || got.Step != test.step {
				t.Errorf("%s, %v, step %q", got.State, got.Problem, got.Step)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	r := Request{VolumeUID: "u", Attempt: "a2"}
	mine, before := Name("u", "a2"), Name("u", "a1")
	ended := condition(batchv1.JobFailed, "")
	for name, test := range map[string]struct {
		answered Answered
		seen     Seen
		want     Move
	}{
		"nothing is there":                    {want: Begin},
		"with its final answer":               {answered: Answered{Final: true, Made: true}, want: Rest},
		"its Job is there":                    {seen: Seen{Jobs: []*batchv1.Job{job(mine)}}, want: Follow},
		"its Job was there":                   {answered: Answered{Made: true}, want: VerifyGone},
		"another attempt's Job has ended":     {seen: Seen{Jobs: []*batchv1.Job{job(before, ended)}}, want: Begin},
		"another attempt's Job has not ended": {seen: Seen{Jobs: []*batchv1.Job{job(before)}}, want: Clear},
		"another attempt's pod runs without its Job": {
			seen: Seen{Pods: []*corev1.Pod{pod(before, corev1.PodRunning, corev1.ContainerState{})}}, want: Clear,
		},
		"another attempt's pod has ended": {
			seen: Seen{Pods: []*corev1.Pod{pod(before, corev1.PodFailed, corev1.ContainerState{})}}, want: Begin,
		},
		"the pod of an earlier Job of the same name is left": {
			seen: Seen{Pods: []*corev1.Pod{pod(mine, corev1.PodRunning, corev1.ContainerState{})}}, want: Clear,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Decide(r, test.answered, test.seen); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func FuzzResult(f *testing.F) {
	f.Add("CleanFailed", "input/output error", "zero 1:4/8", `{"clean":true}`)
	f.Add("", strings.Repeat("\x00", 5000), strings.Repeat("s", 5000), "\xff")
	f.Fuzz(func(t *testing.T, reason, message, step, text string) {
		encoded := Result{Reason: disk.Reason(reason), Message: message, Step: step}.Encode()
		if len(encoded) > maxResult {
			t.Fatalf("%d bytes are more than kubelet reads", len(encoded))
		}
		if back := Decode(string(encoded)); back.Clean || len(reason)+len(message)+len(step) < 100 && !strings.ContainsRune(step, '\ufffd') && back.Step != strings.ToValidUTF8(step, "\ufffd") {
			t.Errorf("%s was read as %+v", encoded, back)
		}
		Decode(text)
	})
}
