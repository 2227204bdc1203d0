// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podutils "k8s.io/kubernetes/pkg/api/v1/pod"

	"stowage.dev/stowage/test/await"
)

// Wait watches an object, or all of its kind if name is empty, until is accepts one, and returns
// it. is is never called with nil: Wait waits for an object that does not exist yet.
func Wait[T, L runtime.Object](e *Env, kind await.Kind[L], name, what string, is func(T) bool) T {
	e.T.Helper()
	found, err := await.Object(e.Context, kind, name, is)
	if err != nil {
		e.T.Fatalf("wait until %T %s is %s: %v", found, name, what, err)
	}
	return found
}

// WaitGone returns when the object, such as pod/name, is deleted. It is in the test's namespace
// unless more flags name another one.
func (e *Env) WaitGone(object string, flags ...string) {
	e.T.Helper()
	e.Kubectl(append([]string{"wait", "--for=delete", "--timeout=-1s", object}, flags...)...)
}

// WaitPod waits until is accepts a pod of the test's namespace, and returns it.
func (e *Env) WaitPod(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	e.T.Helper()
	return Wait(e, e.Client.CoreV1().Pods(e.Namespace), name, what, is)
}

// WaitPV waits until is accepts a volume, and returns it. The name is the full one; empty: any
// volume.
func (e *Env) WaitPV(name, what string, is func(*corev1.PersistentVolume) bool) *corev1.PersistentVolume {
	e.T.Helper()
	return Wait(e, e.Client.CoreV1().PersistentVolumes(), name, what, is)
}

// WaitPVC waits until is accepts a claim of the test's namespace, and returns it.
func (e *Env) WaitPVC(name, what string, is func(*corev1.PersistentVolumeClaim) bool) *corev1.PersistentVolumeClaim {
	e.T.Helper()
	return Wait(e, e.Client.CoreV1().PersistentVolumeClaims(e.Namespace), name, what, is)
}

// WaitEvent waits for an event about an object, with this reason, or any if it is empty, whose
// message contains text, and returns it. Events about objects without a namespace are in
// namespace default.
func (e *Env) WaitEvent(namespace, object, reason, text string) *corev1.Event {
	e.T.Helper()
	what := fmt.Sprintf("%s of %s: %s", reason, object, text)
	return Wait(e, e.Client.CoreV1().Events(namespace), "", what, func(event *corev1.Event) bool {
		return event.InvolvedObject.Name == object && (reason == "" || event.Reason == reason) && strings.Contains(event.Message, text)
	})
}

// Succeeded reports whether the pod has succeeded.
func Succeeded(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }

// Ready reports whether the pod is Ready.
func Ready(pod *corev1.Pod) bool { return podutils.IsPodReady(pod) }
