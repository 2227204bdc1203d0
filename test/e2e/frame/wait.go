// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Target is an object to wait for.
type Target struct {
	Client    rest.Interface // of the object's group and version
	Resource  string         // such as "pods"
	Namespace string         // empty: the object is in none
	Name      string         // empty: Wait waits for any of them
}

// Wait watches an object until is accepts it, and returns it. is is never called with nil: Wait
// waits for an object that does not exist yet.
func Wait[T runtime.Object](e *Env, target Target, what string, is func(T) bool) T {
	e.T.Helper()
	found, err := wait(e, target, func(object T, _ bool) bool { return is(object) }, false)
	if err != nil {
		e.T.Fatalf("wait until %s %s is %s: %v", target.Resource, target.Name, what, err)
	}
	return found
}

// WaitGone returns when the object does not exist.
func WaitGone[T runtime.Object](e *Env, target Target) {
	e.T.Helper()
	if _, err := wait(e, target, func(_ T, deleted bool) bool { return deleted }, true); err != nil {
		e.T.Fatalf("wait for the deletion of %s %s: %v", target.Resource, target.Name, err)
	}
}

// wait watches a target until done returns true. With gone, a missing object is done too.
func wait[T runtime.Object](e *Env, target Target, done func(object T, deleted bool) bool, gone bool) (found T, err error) {
	which := fields.Everything()
	if target.Name != "" {
		which = fields.OneTermEqualSelector(metav1.ObjectNameField, target.Name)
	}
	lw := cache.NewListWatchFromClient(target.Client, target.Resource, target.Namespace, which)
	var precondition watchtools.PreconditionFunc
	if gone {
		precondition = func(store cache.Store) (bool, error) { return len(store.List()) == 0, nil }
	}
	// T is a pointer to a type of objects.
	example, ok := reflect.TypeAssert[T](reflect.New(reflect.TypeFor[T]().Elem()))
	if !ok {
		return found, fmt.Errorf("%T is no kind of object", found)
	}
	_, err = watchtools.UntilWithSync(e.Context, lw, example, precondition, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(T)
		if !ok {
			return false, nil
		}
		found = object
		deleted := event.Type == watch.Deleted
		return (gone || !deleted) && done(object, deleted), nil
	})
	return found, err
}

// WaitPod waits until is accepts a pod of the test's namespace, and returns it.
func (e *Env) WaitPod(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	e.T.Helper()
	return Wait(e, Target{e.Client.CoreV1().RESTClient(), "pods", e.Namespace, name}, what, is)
}

// WaitPV waits until is accepts a volume, and returns it. The name is the full one.
func (e *Env) WaitPV(name, what string, is func(*corev1.PersistentVolume) bool) *corev1.PersistentVolume {
	e.T.Helper()
	return Wait(e, Target{e.Client.CoreV1().RESTClient(), "persistentvolumes", "", name}, what, is)
}

// WaitPVC waits until is accepts a claim of the test's namespace, and returns it.
func (e *Env) WaitPVC(name, what string, is func(*corev1.PersistentVolumeClaim) bool) *corev1.PersistentVolumeClaim {
	e.T.Helper()
	return Wait(e, Target{e.Client.CoreV1().RESTClient(), "persistentvolumeclaims", e.Namespace, name}, what, is)
}

// WaitEvent waits for an event about an object, with this reason, or any if it is empty, whose
// message contains text, and returns it. Events about objects without a namespace are in
// namespace default.
func (e *Env) WaitEvent(namespace, object, reason, text string) *corev1.Event {
	e.T.Helper()
	target := Target{Client: e.Client.CoreV1().RESTClient(), Resource: "events", Namespace: namespace}
	return Wait(e, target, fmt.Sprintf("an event %s of %s: %s", reason, object, text), func(event *corev1.Event) bool {
		return event.InvolvedObject.Name == object && (reason == "" || event.Reason == reason) && strings.Contains(event.Message, text)
	})
}

// Succeeded reports whether the pod has succeeded.
func Succeeded(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }

// Ready reports whether the pod is Ready.
func Ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
