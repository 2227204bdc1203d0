// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubecompat and those below it have what differs between the minor versions of
// Kubernetes that Stowage is built against. The folders beside this one have the same module
// with the same exported API, each for one minor; the module file of the build selects one.
//
// This is the module for Kubernetes 1.37.
package kubecompat

import v1 "k8s.io/api/core/v1"

// PodGroup returns the group of pods that kube-scheduler schedules together with the pod, by a
// name that is unique in the cluster; "" for none.
func PodGroup(pod *v1.Pod) string {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return pod.Namespace + "/" + *g.PodGroupName
	}
	return ""
}

// SetPodGroup makes the pod a member of a group of its namespace. For tests.
func SetPodGroup(pod *v1.Pod, group string) {
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
}
