// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"stowage.dev/stowage/test/integration/fixture"
)

// waitEvent waits for an event about the pod whose note has the words, and returns the
// note.
func waitEvent(e *fixture.Env, pod, reason, words string) (note string) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	events := e.Client.EventsV1().Events(e.Namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return events.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return events.Watch(ctx, o) },
	}
	var seen []string
	_, err := watchtools.UntilWithSync(ctx, lw, &eventsv1.Event{}, nil, func(w watch.Event) (bool, error) {
		event, ok := w.Object.(*eventsv1.Event)
		if !ok || event.Regarding.Name != pod {
			return false, nil
		}
		seen = append(seen, event.Reason+": "+event.Note)
		note = event.Note
		return event.Reason == reason && strings.Contains(note, words), nil
	})
	if err != nil {
		e.T.Fatalf("no event %s with %q about pod %s: %v; there are:\n%s", reason, words, pod, err, strings.Join(seen, "\n"))
	}
	return note
}
