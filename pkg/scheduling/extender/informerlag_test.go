// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// TestFilterWaitsForWhatTheSchedulerKnows: the scheduler's watch may be ahead of the
// extender's, and nothing wakes a pod that is refused for the want of what the
// scheduler had before it asked.
func TestFilterWaitsForWhatTheSchedulerKnows(t *testing.T) {
	t.Parallel()
	p, c := pod("p", "c"), claim("c", "1Gi").Obj()
	fitting := func(w *world) { w.show(volume("v", "a", "1Gi").Obj()) }
	tests := map[string]struct {
		known   []metav1.Object // besides class and node
		refused bool            // the pod was, before
		// before happens before the pod is refused.
		before func(w *world)
		// since is what is shown between that and the question, meanwhile what
		// is shown while filter is asked.
		since, meanwhile func(w *world)
		want             int // nodes
		waited           time.Duration
	}{
		"asked again after nothing, and the volume comes": {
			known: []metav1.Object{p, c}, refused: true, meanwhile: fitting, want: 1,
		},
		"asked again after nothing, and other things come before the volume": {
			known: []metav1.Object{p, c}, refused: true, want: 1, meanwhile: func(w *world) {
				w.show(volume("small", "a", "1Mi").Obj())
				synctest.Wait()
				fitting(w)
			},
		},
		"asked again after nothing, and nothing comes": {
			known: []metav1.Object{p, c}, refused: true, waited: lagEnds,
		},
		"asked again for something that was shown": {
			known: []metav1.Object{p, c}, refused: true, since: func(w *world) { w.show(volume("small", "a", "1Mi").Obj()) },
		},
		"asked again after nothing, and what was reserved is released": {
			known: []metav1.Object{p, c, volume("v", "a", "1Gi").Obj(), claim("d", "1Gi").Obj()}, refused: true, want: 1, waited: 100 * time.Millisecond,
			before: reserve, meanwhile: func(w *world) { w.cache.Release("pod-other") },
		},
		"asked first": {
			known: []metav1.Object{p, c},
		},
		"the pod was not shown": {
			known: []metav1.Object{c}, meanwhile: fitting, want: 1,
		},
		"the pod was not shown, and nothing comes": {
			known: []metav1.Object{c}, waited: lagEnds,
		},
		"the claim is bound, and nothing comes": {
			known: []metav1.Object{p, volume("v", "b", "1Gi").ClaimRef("default", "c", "pvc-c").Obj(), claim("c", "1Gi").Bound("v").Obj()}, refused: true,
		},
		"the claim was not shown": {
			known: []metav1.Object{p}, meanwhile: func(w *world) { fitting(w); w.show(c) }, want: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, extender.ModeFull, localClass(), node("a"))
				for _, object := range tc.known {
					w.show(object)
				}
				synctest.Wait()
				if tc.before != nil {
					tc.before(w)
				}
				if tc.refused {
					w.filterNames(p, "a")
				}
				if tc.since != nil {
					tc.since(w)
					synctest.Wait()
				}
				asked, got := time.Now(), make(chan int)
				go func() { got <- len(*w.filterNames(p, "a").NodeNames) }()
				synctest.Wait()
				if tc.meanwhile != nil {
					tc.meanwhile(w)
				}
				if nodes := <-got; nodes != tc.want {
					t.Errorf("%d nodes, want %d", nodes, tc.want)
				}
				if waited := time.Since(asked); waited != tc.waited {
					t.Errorf("filter waited %s, want %s", waited, tc.waited)
				}
			})
		})
	}
}

// reserve reserves volumes on node a for the pod "other" with the claim "d".
func reserve(w *world) {
	w.t.Helper()
	d, refusal, err := w.cache.Demand(pod("other", "d"))
	if refusal != nil || err != nil {
		w.t.Fatal(refusal, err)
	}
	if _, reason := w.cache.Reserve(d, "a"); reason.Code != match.Fits {
		w.t.Fatal(reason)
	}
}

// show creates a pod, claim or volume, of which the informers tell.
func (w *world) show(object metav1.Object) {
	w.t.Helper()
	var err error
	switch o := object.(type) {
	case *v1.Pod:
		err = w.client.Tracker().Add(w.stamped(o))
	case *v1.PersistentVolumeClaim:
		_, err = w.client.CoreV1().PersistentVolumeClaims(o.Namespace).Create(w.t.Context(), o, metav1.CreateOptions{})
	case *v1.PersistentVolume:
		_, err = w.client.CoreV1().PersistentVolumes().Create(w.t.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Error(err)
	}
}

// TestOneCycleIsOneQuestion: with a nominated node the scheduler asks about it first
// and about all nodes after that. The second question does not wait.
func TestOneCycleIsOneQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pod("p", "c")
		w := newWorld(t, extender.ModeFull, localClass(), node("a"), node("b"), p, claim("c", "1Gi").Obj())
		synctest.Wait()
		for cycle := range 2 {
			w.filterNames(p, "a")
			start := time.Now()
			w.filterNames(p, "a", "b")
			if waited := time.Since(start); waited != 0 {
				t.Errorf("cycle %d: the question about all nodes waited %s", cycle, waited)
			}
		}
	})
}

// TestHeartbeatIsNoNews: a node's status does not make up for what the scheduler
// knows.
func TestHeartbeatIsNoNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, a := pod("p", "c"), node("a")
		w := newWorld(t, extender.ModeFull, localClass(), a, p, claim("c", "1Gi").Obj())
		update := func(label string) {
			a := a.DeepCopy()
			a.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, LastHeartbeatTime: metav1.Now()}}
			if label != "" {
				a.Labels["example.com/label"] = label
			}
			if err := w.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), w.stamped(a), ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		synctest.Wait()
		w.filterNames(p, "a")
		for _, tc := range []struct {
			label  string
			waited time.Duration
		}{{"", lagEnds}, {"changed", 0}} {
			update(tc.label)
			start := time.Now()
			if w.filterNames(p, "a"); time.Since(start) != tc.waited {
				t.Errorf("after label %q: waited %s, want %s", tc.label, time.Since(start), tc.waited)
			}
		}
	})
}

// TestCapacityShownLate: in mode Advisory the scheduler asks again because capacity
// grew, on a machine so busy that the extender is shown that much later.
func TestCapacityShownLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pod("p", "c")
		w := newWorld(t, extender.ModeAdvisory, csiClass(), csiDriver(), node("a"), room("a", "1Gi"), p, claim("c", "5Gi").Class("csi").Obj())
		synctest.Wait()
		w.filterNames(p, "a")
		got := make(chan int)
		go func() { got <- len(*w.filterNames(p, "a").NodeNames) }()
		time.Sleep(lagEnds * 3 / 5) //nolint:forbidigo // the bubble's time
		grown := w.stamped(room("a", "10Gi"))
		if err := w.client.Tracker().Update(storagev1.SchemeGroupVersion.WithResource("csistoragecapacities"), grown, "default"); err != nil {
			t.Fatal(err)
		}
		if nodes := <-got; nodes != 1 {
			t.Errorf("%d nodes, want the one whose capacity grew", nodes)
		}
	})
}

// TestDecidingEnds: where deciding takes longer than a pod waits, and something is shown
// each time, the pod is refused all the same, and others do not wait for a while.
func TestDecidingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, extender.ModeFull)
		for _, want := range []int{3, 1} {
			decided := 0
			decide := func() {
				decided++
				time.Sleep(lagEnds * 3 / 4) //nolint:forbidigo // the bubble's time
				w.gate.change(func() { w.gate.shown++ })
			}
			asked := w.gate.ask("p", 1)
			decide()
			bounded, done := w.gate.spend(t.Context(), w.gate.informerLag)
			for w.gate.more(bounded, &asked) {
				decide()
			}
			done()
			if decided != want {
				t.Errorf("decided %d times, want %d", decided, want)
			}
		}
	})
}
