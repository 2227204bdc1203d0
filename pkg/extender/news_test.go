// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/extender"
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
			known: []metav1.Object{p, c}, refused: true, waited: newsComes,
		},
		"asked again for something that was shown": {
			known: []metav1.Object{p, c}, refused: true, since: func(w *world) { w.show(volume("small", "a", "1Mi").Obj()) },
		},
		"asked first": {
			known: []metav1.Object{p, c},
		},
		"the pod was not shown": {
			known: []metav1.Object{c}, meanwhile: fitting, want: 1,
		},
		"the pod was not shown, and nothing comes": {
			known: []metav1.Object{c}, waited: newsComes,
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

// TestNewsRests: pods that wait in vain do not hold up the scheduler for more than a
// tenth of its time, nor for long when its calls are short.
func TestNewsRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, extender.ModeFull)
		start := time.Now()
		refuse := func(ctx context.Context) bool { return w.news.begin("p").again(ctx, func() bool { return false }) }
		for step, want := range []time.Duration{newsComes, newsComes, newsComes} {
			if refuse(t.Context()); time.Since(start) != want {
				t.Errorf("after %d pods %s have passed, want %s", step+1, time.Since(start), want)
			}
		}
		time.Sleep(restAfter * newsComes) //nolint:forbidigo // the bubble's time
		if refuse(t.Context()); time.Since(start) != (restAfter+2)*newsComes {
			t.Errorf("%s have passed: the next pod should have waited again", time.Since(start))
		}
		time.Sleep(restAfter * newsComes) //nolint:forbidigo // the bubble's time
		ended, end := context.WithCancel(t.Context())
		end()
		start = time.Now()
		if refuse(ended) || time.Since(start) != 0 {
			t.Errorf("a call waited %s after its end", time.Since(start))
		}
		w.news.shown()
		if l := w.news.begin("q"); l.again(t.Context(), func() bool { return true }) {
			t.Error("a pod of which all was shown is decided about again")
		}
		quick, err := newNews(80*time.Millisecond, w.informers)
		if err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		if quick.begin("p").again(t.Context(), func() bool { return false }); time.Since(start) != 10*time.Millisecond {
			t.Errorf("with 80 ms for a call a pod waited %s", time.Since(start))
		}
	})
}

// TestNewsEnds: where deciding takes longer than a pod waits, and something is shown
// each time, the pod is refused all the same, and others do not wait for a while.
func TestNewsEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, extender.ModeFull)
		for _, want := range []int{3, 1} {
			decided := 0
			for look := w.news.begin("p"); decided == 0 || look.again(t.Context(), func() bool { return false }); decided++ {
				time.Sleep(newsComes * 3 / 4) //nolint:forbidigo // the bubble's time
				w.news.shown()
			}
			if decided != want {
				t.Errorf("decided %d times, want %d", decided, want)
			}
		}
	})
}
