// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"stowage.dev/stowage/test/integration/fixture"
)

// waitCondition waits until the pod's condition PodScheduled contains words, and returns its
// message. Every attempt to place the pod updates it; of its events only the
// first has the message. begin, if it is not nil, is called once the watch has started.
func waitCondition(e *fixture.Env, pod, words string, begin func()) (message string) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	lw := cache.NewListWatchFromClient(e.Client.CoreV1().RESTClient(), "pods", e.Namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, pod))
	synced := func(cache.Store) (bool, error) {
		if begin != nil {
			begin()
		}
		return false, nil
	}
	var seen []string
	_, err := watchtools.UntilWithSync(ctx, lw, &v1.Pod{}, synced, func(w watch.Event) (bool, error) {
		if p, ok := w.Object.(*v1.Pod); ok {
			message = rejection(p)
			seen = append(seen, message)
		}
		return strings.Contains(message, words), nil
	})
	if err != nil {
		e.T.Fatalf("pod %s has no condition %q: %v; its messages:\n%s", pod, words, err, strings.Join(seen, "\n"))
	}
	return message
}

// rejection is the message of the pod's condition PodScheduled, if that is False.
func rejection(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}
