// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package loop_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"stowage.dev/stowage/pkg/loop"
)

// TestTally: each object counts once, with its last state, until it is deleted.
func TestTally(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := cachetesting.NewFakeControllerSource()
		informer := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{})
		counts, calls := map[corev1.PodPhase]float64{}, 0
		err := loop.Tally(informer, func(pod *corev1.Pod) corev1.PodPhase { return pod.Status.Phase }, func(phase corev1.PodPhase, more float64) {
			calls++
			counts[phase] += more
			maps.DeleteFunc(counts, func(_ corev1.PodPhase, n float64) bool { return n == 0 })
		})
		if err != nil {
			t.Fatal(err)
		}
		pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: corev1.PodStatus{Phase: phase}}
		}
		source.Add(pod("listed", corev1.PodPending))
		ctx, cancel := context.WithCancel(t.Context())
		defer func() { cancel(); source.Shutdown(); synctest.Wait() }()
		go informer.RunWithContext(ctx)
		for _, step := range []struct {
			name   string
			change func()
			want   map[corev1.PodPhase]float64
			calls  int
		}{
			{"listed", func() {}, map[corev1.PodPhase]float64{corev1.PodPending: 1}, 1},
			{"added", func() { source.Add(pod("added", corev1.PodRunning)) }, map[corev1.PodPhase]float64{corev1.PodPending: 1, corev1.PodRunning: 1}, 1},
			{"changed", func() { source.Modify(pod("listed", corev1.PodRunning)) }, map[corev1.PodPhase]float64{corev1.PodRunning: 2}, 2},
			{"the same", func() { source.Modify(pod("listed", corev1.PodRunning)) }, map[corev1.PodPhase]float64{corev1.PodRunning: 2}, 0},
			{"deleted", func() { source.Delete(pod("listed", corev1.PodRunning)) }, map[corev1.PodPhase]float64{corev1.PodRunning: 1}, 1},
		} {
			calls = 0
			step.change()
			synctest.Wait()
			if diff := cmp.Diff(step.want, counts); diff != "" || calls != step.calls {
				t.Errorf("%s: %d calls, want %d (-want +got):\n%s", step.name, calls, step.calls, diff)
			}
		}
	})
}
