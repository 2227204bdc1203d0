// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// TestFilterWaitsForInformers: the scheduler's watch may be ahead of the extender's, and
// no event requeues a pod that was rejected because of an object that only the scheduler
// had observed.
func TestFilterWaitsForInformers(t *testing.T) {
	t.Parallel()
	p, c := pod("p", "c"), claim("c", "1Gi").Obj()
	fitting := func(w *testbed) { w.show(volume("v", "a", "1Gi").Obj()) }
	tests := map[string]struct {
		known    []metav1.Object // in addition to class and node
		rejected bool            // the pod was rejected before
		// before runs before the pod is rejected.
		before func(w *testbed)
		// since runs between that and the query, meanwhile during the query.
		since, meanwhile func(w *testbed)
		want             int // nodes
		waited           time.Duration
	}{
		"repeated query, and the volume arrives": {
			known: []metav1.Object{p, c}, rejected: true, meanwhile: fitting, want: 1,
		},
		"repeated query, and other objects arrive before the volume": {
			known: []metav1.Object{p, c}, rejected: true, want: 1, meanwhile: func(w *testbed) {
				w.show(volume("small", "a", "1Mi").Obj())
				synctest.Wait()
				fitting(w)
			},
		},
		"repeated query, and nothing arrives": {
			known: []metav1.Object{p, c}, rejected: true, waited: maxInformerLag,
		},
		"query after a change": {
			known: []metav1.Object{p, c}, rejected: true, since: func(w *testbed) { w.show(volume("small", "a", "1Mi").Obj()) },
		},
		"repeated query, and a reservation is released": {
			known: []metav1.Object{p, c, volume("v", "a", "1Gi").Obj(), claim("d", "1Gi").Obj()}, rejected: true, want: 1, waited: 100 * time.Millisecond,
			before: reserve, meanwhile: func(w *testbed) { w.cache.Release("pod-other") },
		},
		"first query": {
			known: []metav1.Object{p, c},
		},
		"the pod was not observed": {
			known: []metav1.Object{c}, meanwhile: fitting, want: 1,
		},
		"the pod was not observed, and nothing arrives": {
			known: []metav1.Object{c}, waited: maxInformerLag,
		},
		"the claim is bound, and nothing arrives": {
			known: []metav1.Object{p, volume("v", "b", "1Gi").ClaimRef("default", "c", "pvc-c").Obj(), claim("c", "1Gi").Bound("v").Obj()}, rejected: true,
		},
		"the claim was not observed": {
			known: []metav1.Object{p}, meanwhile: func(w *testbed) { fitting(w); w.show(c) }, want: 1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTestbed(t, extender.ModeFull, localClass(), node("a"))
				for _, object := range tc.known {
					w.show(object)
				}
				synctest.Wait()
				if tc.before != nil {
					tc.before(w)
				}
				if tc.rejected {
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

// TestUnknownNodes: nothing wakes a pod when the extender observes a node, so a pod that
// fits none of the known ones is an error, which kube-scheduler retries.
func TestUnknownNodes(t *testing.T) {
	t.Parallel()
	p := pod("p", "c")
	for name, tc := range map[string]struct {
		nodes     []string
		meanwhile []metav1.Object
		want      extenderv1.ExtenderFilterResult
		waited    time.Duration
	}{
		"the node arrives": {
			nodes: []string{"a", "x"}, meanwhile: []metav1.Object{volume("v", "x", "1Gi").Obj(), node("x")},
			want: extenderv1.ExtenderFilterResult{NodeNames: names("x"), FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"a": match.NoVolume.String()}},
		},
		"the node arrives, and is too small": {
			nodes: []string{"a", "x"}, meanwhile: []metav1.Object{node("x")}, waited: maxInformerLag,
			want: extenderv1.ExtenderFilterResult{NodeNames: names(), FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"a": match.NoVolume.String(), "x": match.NoVolume.String()}},
		},
		"nothing arrives": {
			nodes: []string{"a", "x", "y"}, waited: maxInformerLag,
			want: extenderv1.ExtenderFilterResult{NodeNames: names(), FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}, Error: "no node fits, and 2 of 3 were not known to the volume extender yet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTestbed(t, extender.ModeFull, localClass(), node("a"), p, claim("c", "1Gi").Obj())
				synctest.Wait()
				asked, got := time.Now(), make(chan extenderv1.ExtenderFilterResult)
				go func() { got <- w.filterNames(p, tc.nodes...) }()
				synctest.Wait()
				for _, object := range tc.meanwhile {
					w.show(object)
				}
				if diff := cmp.Diff(tc.want, <-got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				if waited := time.Since(asked); waited != tc.waited {
					t.Errorf("filter waited %s, want %s", waited, tc.waited)
				}
			})
		})
	}
}

// reserve reserves volumes on node a for the pod "other" with the claim "d".
func reserve(w *testbed) {
	w.t.Helper()
	d, refusal, err := w.cache.Demand(pod("other", "d"))
	if refusal != nil || err != nil {
		w.t.Fatal(refusal, err)
	}
	if _, reason := w.cache.Reserve(d, "a"); reason.Code != match.Fits {
		w.t.Fatal(reason)
	}
}

// show creates a node, pod, claim or volume, which the informers deliver.
func (w *testbed) show(object metav1.Object) {
	w.t.Helper()
	var err error
	switch o := object.(type) {
	case *v1.Node, *v1.Pod:
		err = w.client.Tracker().Add(w.stamped(o.(runtime.Object)))
	case *v1.PersistentVolumeClaim:
		_, err = w.client.CoreV1().PersistentVolumeClaims(o.Namespace).Create(w.t.Context(), o, metav1.CreateOptions{})
	case *v1.PersistentVolume:
		_, err = w.client.CoreV1().PersistentVolumes().Create(w.t.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Error(err)
	}
}

// TestOneCycleIsOneQuery: with a nominated node the scheduler filters that node first and
// all nodes afterwards. The second query does not wait.
func TestOneCycleIsOneQuery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pod("p", "c")
		w := newTestbed(t, extender.ModeFull, localClass(), node("a"), node("b"), p, claim("c", "1Gi").Obj())
		synctest.Wait()
		for cycle := range 2 {
			w.filterNames(p, "a")
			start := time.Now()
			w.filterNames(p, "a", "b")
			if waited := time.Since(start); waited != 0 {
				t.Errorf("cycle %d: the query for all nodes waited %s", cycle, waited)
			}
		}
	})
}

// TestHeartbeatIsNotAChange: the status of a node does not end the wait for informers.
func TestHeartbeatIsNotAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, a := pod("p", "c"), node("a")
		w := newTestbed(t, extender.ModeFull, localClass(), a, p, claim("c", "1Gi").Obj())
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
		}{{"", maxInformerLag}, {"changed", 0}} {
			update(tc.label)
			start := time.Now()
			if w.filterNames(p, "a"); time.Since(start) != tc.waited {
				t.Errorf("after label %q: waited %s, want %s", tc.label, time.Since(start), tc.waited)
			}
		}
	})
}

// TestCapacityObservedLate: in mode Advisory the scheduler repeats the query because
// capacity grew, and the extender observes it much later.
func TestCapacityObservedLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pod("p", "c")
		w := newTestbed(t, extender.ModeAdvisory, csiClass(), csiDriver(), node("a"), capacity("a", "1Gi"), p, claim("c", "5Gi").Class("csi").Obj())
		synctest.Wait()
		w.filterNames(p, "a")
		got := make(chan int)
		go func() { got <- len(*w.filterNames(p, "a").NodeNames) }()
		time.Sleep(maxInformerLag * 3 / 5) //nolint:forbidigo // in a synctest bubble
		grown := w.stamped(capacity("a", "10Gi"))
		if err := w.client.Tracker().Update(storagev1.SchemeGroupVersion.WithResource("csistoragecapacities"), grown, "default"); err != nil {
			t.Fatal(err)
		}
		if nodes := <-got; nodes != 1 {
			t.Errorf("%d nodes, want the one whose capacity grew", nodes)
		}
	})
}

// TestEvaluationsAreBounded: if an evaluation takes longer than the wait, and something
// changes each time, the pod is still rejected, and later calls do not wait until the
// budget is positive.
func TestEvaluationsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTestbed(t, extender.ModeFull)
		for _, want := range []int{3, 1} {
			evaluations := 0
			decide := func() {
				evaluations++
				time.Sleep(maxInformerLag * 3 / 4) //nolint:forbidigo // in a synctest bubble
				w.gate.change(func() { w.gate.observations++ })
			}
			asked := w.gate.newQuery("p", 1)
			decide()
			bounded, done := w.gate.startWait(t.Context(), w.gate.informerLag)
			for w.gate.waitForChange(bounded, &asked) {
				decide()
			}
			done()
			if evaluations != want {
				t.Errorf("%d evaluations, want %d", evaluations, want)
			}
		}
	})
}
