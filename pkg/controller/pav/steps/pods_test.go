// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/controller/pav/podstep"
)

// The facts about a pod are whether it can only be the controller's, and what keeps it from running.
func TestPodFacts(t *testing.T) {
	t.Parallel()
	waits := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}}}
		}
	}
	deleted := metav1.Now()
	ready := func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	done := func(p *corev1.Pod) {
		p.Spec.Containers, p.Status.Phase = []corev1.Container{{Name: "c"}}, corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}}}}
	}
	unscheduled := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "why"}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   podstep.Pod
	}{
		"owned":                      {func(*corev1.Pod) {}, podstep.Pod{UID: "p", Adoptable: true}},
		"in another namespace":       {func(p *corev1.Pod) { p.Namespace = "ns" }, podstep.Pod{UID: "p"}},
		"without an owner":           {func(p *corev1.Pod) { p.OwnerReferences = nil }, podstep.Pod{UID: "p"}},
		"an owner that controls not": {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, podstep.Pod{UID: "p"}},
		"an earlier volume owns it":  {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "x" }, podstep.Pod{UID: "p"}},
		"its image cannot be pulled": {waits("ErrImagePull"), podstep.Pod{UID: "p", Adoptable: true, Problem: "container c does not run: ErrImagePull: why"}},
		"its containers are created": {waits("ContainerCreating"), podstep.Pod{UID: "p", Adoptable: true}},
		"init containers run":        {waits("PodInitializing"), podstep.Pod{UID: "p", Adoptable: true}},
		"unschedulable":              {unscheduled(corev1.PodReasonUnschedulable), podstep.Pod{UID: "p", Adoptable: true, Problem: "is not scheduled: why"}},
		"the scheduler failed":       {unscheduled(corev1.PodReasonSchedulerError), podstep.Pod{UID: "p", Adoptable: true}},
		"ready":                      {ready, podstep.Pod{UID: "p", Adoptable: true, Ready: true}},
		"done":                       {done, podstep.Pod{UID: "p", Adoptable: true, Done: true}},
		"done, but being deleted":    {func(p *corev1.Pod) { done(p); p.DeletionTimestamp, p.Spec.NodeName = &deleted, "n" }, podstep.Pod{UID: "p", Adoptable: true, DeletedAt: deleted.Time}},
		"done, restarted":            {func(p *corev1.Pod) { done(p); p.Spec.RestartPolicy = corev1.RestartPolicyAlways }, podstep.Pod{UID: "p", Adoptable: true}},
		"done, restarted by a rule": {func(p *corev1.Pod) {
			done(p)
			p.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}, podstep.Pod{UID: "p", Adoptable: true}},
		"one of two is done": {func(p *corev1.Pod) {
			done(p)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d"})
		}, podstep.Pod{UID: "p", Adoptable: true}},
		"failed, not reported":     {func(p *corev1.Pod) { done(p); p.Status.ContainerStatuses[0].State.Terminated.ExitCode = 1 }, podstep.Pod{UID: "p", Adoptable: true}},
		"ready, but being deleted": {func(p *corev1.Pod) { ready(p); p.DeletionTimestamp, p.Spec.NodeName = &deleted, "n" }, podstep.Pod{UID: "p", Adoptable: true, DeletedAt: deleted.Time}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "stowage-pav", UID: "p",
				OwnerReferences: []metav1.OwnerReference{{Kind: "PavVolume", Name: "pvc-1", UID: "u", Controller: new(true)}},
			}}
			tc.change(pod)
			if diff := cmp.Diff(&tc.want, PodFacts(pod, "u", "stowage-pav")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
