// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestTimesOf(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Unix(1000, 0).Add(time.Duration(seconds) * time.Second) }
	tests := map[string]struct {
		spans []span
		want  podTimes
	}{
		"none": {},
		"never bound": {
			spans: []span{{seen: at(0)}},
			want:  podTimes{Pods: 1},
		},
		"from the first seen to the last bound": {
			spans: []span{{at(2), at(9)}, {at(1), at(4)}, {at(3), at(4)}},
			want:  podTimes{Pods: 3, Bound: 3, Seconds: 8, P50: 3, P99: 7},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, timesOf(test.spans)); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStopwatchKeepsFirstBinding: updates of a bound pod do not count.
func TestStopwatchKeepsFirstBinding(t *testing.T) {
	t.Parallel()
	w := newStopwatch()
	pod := &v1.Pod{}
	pod.Namespace, pod.Name = "claims-1", "pod-0"
	w.see(pod)
	bound := pod.DeepCopy()
	bound.Spec.NodeName = "n"
	w.see(bound)
	first := w.summary()
	w.see(bound)
	if diff := cmp.Diff(first, w.summary()); diff != "" {
		t.Errorf("after another update (-before +after):\n%s", diff)
	}
	if got := first["claims-1"]; got.Pods != 1 || got.Bound != 1 {
		t.Errorf("%+v: want one pod, bound", got)
	}
}
