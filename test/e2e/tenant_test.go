// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/e2e/frame"
)

// ended reports whether a pod has done its work, well or not.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// finish runs a pod to its end, deletes it, and returns its output and node. A pod
// that fails fails the test.
func finish(e *frame.Env, pod *corev1.Pod) (printed, node string) {
	e.T.Helper()
	e.Create(pod)
	return finished(e, pod.Name)
}

// finished is finish for a pod that exists.
func finished(e *frame.Env, name string) (printed, node string) {
	e.T.Helper()
	done := e.WaitPod(name, "at its end", ended)
	out, err := e.Client.CoreV1().Pods(e.Namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(e.Context)
	if err != nil {
		e.T.Fatal(err)
	}
	if !frame.Succeeded(done) {
		e.T.Fatalf("pod %s failed: %s", name, out)
	}
	remove(e, name)
	return string(out), done.Spec.NodeName
}

// by has a pod placed by a scheduler.
func by(scheduler string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SchedulerName = scheduler
	return pod
}

// withDevice gives a pod the block device of a claim, as /dev/ and the claim's name.
func withDevice(pod *corev1.Pod, claim string) *corev1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
	c := &pod.Spec.Containers[0]
	c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: claim, DevicePath: "/dev/" + claim})
	return pod
}

// blockClaim requests a block device of a class.
func blockClaim(e *frame.Env, name, class string) *corev1.PersistentVolumeClaim {
	claim := e.Claim(name, class)
	claim.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	return claim
}

// published waits for the free volume of a disk, and returns it. before are those that the disk
// had earlier.
func published(e *frame.Env, node, path string, before ...*corev1.PersistentVolume) *corev1.PersistentVolume {
	e.T.Helper()
	return e.WaitPV("", "published at "+path+" of node "+node, func(pv *corev1.PersistentVolume) bool {
		for _, old := range before {
			if pv.UID == old.UID {
				return false
			}
		}
		return at(pv, node, path) && pv.Status.Phase == corev1.VolumeAvailable && pv.DeletionTimestamp == nil
	})
}

// at reports whether a volume is a disk of a node.
func at(pv *corev1.PersistentVolume, node, path string) bool {
	if pv.Spec.Local == nil || localpv.PathOf(pv) != path {
		return false
	}
	terms := pv.Spec.NodeAffinity.Required.NodeSelectorTerms
	return len(terms) == 1 && terms[0].MatchExpressions[0].Values[0] == node
}

// giveBack deletes a claim.
func giveBack(e *frame.Env, claim string) {
	e.T.Helper()
	e.Do(e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).Delete(e.Context, claim, metav1.DeleteOptions{}))
}

// refused waits until the pod is unschedulable with this reason, among others. Each attempt updates
// its condition; of its events only the first has the message.
func refused(e *frame.Env, pod, reason string) {
	e.T.Helper()
	e.WaitPod(pod, "refused: "+reason, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, reason)
		})
	})
}
