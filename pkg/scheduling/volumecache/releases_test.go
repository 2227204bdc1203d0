// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"stowage.dev/kubecompat"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// woken are the pods that a listener receives. Only in a synctest bubble.
type woken chan string

// listen registers a listener until the test ends.
func (w *testbed) listen(t *testing.T) woken {
	all := make(woken, 2*maxReleases)
	stop := w.OnRelease(func(waiting func() []*v1.Pod) {
		for _, pod := range waiting() {
			all <- pod.Name
		}
	})
	t.Cleanup(stop)
	return all
}

// want compares the pods that are woken soon.
func (all woken) want(t *testing.T, want ...string) {
	t.Helper()
	time.Sleep(releaseInterval + releaseDelay) //nolint:forbidigo // the bubble's time
	synctest.Wait()
	var got []string
	for len(all) > 0 {
		got = append(got, <-all)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}

// member is a pod of a pod group.
func member(group, name string, claims ...string) *v1.Pod {
	p := pod(name, claims...)
	kubecompat.SetPodGroup(p, group)
	return p
}

// reject evaluates the pods for node a, which none of them may fit.
func (w *testbed) reject(t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	for _, p := range pods {
		w.put(p)
		if got := w.fits(p, "a"); got == match.Fits {
			t.Fatalf("pod %s fits", p.Name)
		}
	}
}

// TestReleaseWakes: a pod's reservations are released. The pods that were rejected
// while they existed, and that the release can unblock, are woken.
func TestReleaseWakes(t *testing.T) {
	t.Parallel()
	first := pod("first", "c")
	reserve := func(t *testing.T, w *testbed, pods ...*v1.Pod) {
		t.Helper()
		for _, p := range pods {
			if w.reserve(p, "a") == nil {
				t.Fatalf("pod %s does not fit", p.Name)
			}
		}
	}
	for name, tc := range map[string]struct {
		do   func(t *testing.T, w *testbed)
		want []string
	}{
		"volumes": {
			do: func(t *testing.T, w *testbed) {
				reserve(t, w, first)
				w.reject(t, pod("waits", "d"), pod("too-large", "large"), pod("for-another-class", "o"), pod("two", "d", "e"))
				w.Release(first.UID)
			},
			want: []string{"waits"},
		},
		"bytes": {
			do: func(t *testing.T, w *testbed) {
				p := pod("first", "made")
				reserve(t, w, p)
				w.reject(t, pod("made-too", "made2"), pod("vast", "vast"))
				w.Release(p.UID)
			},
			want: []string{"made-too"},
		},
		"the node of a claim that both use": {
			do: func(t *testing.T, w *testbed) {
				p := pod("first", "u")
				reserve(t, w, p)
				w.put(pod("shares", "u"))
				if got := w.fits(pod("shares", "u"), "b"); got == match.Fits {
					t.Fatal("the pod fits a node that the claim has not selected")
				}
				w.Release(p.UID)
			},
			want: []string{"shares"},
		},
		"the pod was rejected before the other reserved": { // not evaluated on node a
			do: func(t *testing.T, w *testbed) {
				w.put(pod("waits", "d"))
				if got := w.fits(pod("waits", "d"), "b"); got == match.Fits {
					t.Fatal("the pod fits node b")
				}
				reserve(t, w, first)
				w.Release(first.UID)
			},
		},
		"the pod was rejected before, but then an event could not unblock it": {
			do: func(t *testing.T, w *testbed) {
				w.reject(t, pod("two", "d", "e"))
				reserve(t, w, first)
				d := w.demand(pod("two", "d", "e"))
				w.put(localPV("new", "a", "1Gi").Obj())
				if w.VolumeMayUnblock(d, "new") {
					t.Fatal("VolumeMayUnblock is true for the new volume")
				}
				w.Release(first.UID)
			},
			want: []string{"two"},
		},
		"the driver reported more, which did not suffice with what was reserved": {
			do: func(t *testing.T, w *testbed) {
				p := pod("first", "made")
				reserve(t, w, p)
				w.put(pod("made-too", "made2"), builders.MakeCapacity("r", "csi").Hostname("a").Capacity("110Gi").Obj())
				if w.CapacityMayUnblock(w.demand(pod("made-too", "made2")), builders.MakeCapacity("r", "csi").Obj()) {
					t.Fatal("CapacityMayUnblock is true for the report")
				}
				w.Release(p.UID)
			},
			want: []string{"made-too"},
		},
		"the pod has reserved since it was rejected": {
			do: func(t *testing.T, w *testbed) {
				reserve(t, w, first)
				w.reject(t, pod("waits", "d"))
				w.put(localPV("new", "a", "1Gi").Obj())
				reserve(t, w, pod("waits", "d"))
				w.Release(first.UID)
			},
		},
		"the pod was deleted": {
			do: func(t *testing.T, w *testbed) {
				reserve(t, w, first)
				w.reject(t, pod("waits", "d"))
				w.Release(first.UID)
				w.remove(pod("waits"))
				if len(w.rejections.byPod) > 0 {
					t.Error("the rejection of a deleted pod is kept")
				}
			},
		},
		"the reserved volume was bound": {
			do: func(t *testing.T, w *testbed) {
				reserve(t, w, first)
				w.reject(t, pod("waits", "d"))
				w.put(localPV("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c").Phase(v1.VolumeBound).Obj(), pvc("c", "1Gi").Bound("v").Obj())
				w.Release(first.UID)
			},
		},
		"the claim was bound to another volume": {
			do: func(t *testing.T, w *testbed) {
				reserve(t, w, first)
				w.reject(t, pod("waits", "d"))
				w.put(localPV("u", "b", "1Gi").ClaimRef("default", "c", "pvc-c").Phase(v1.VolumeBound).Obj(), pvc("c", "1Gi").Bound("u").Obj())
				w.Release(first.UID)
			},
			want: []string{"waits"},
		},
		"the volume was provisioned": {
			do: func(t *testing.T, w *testbed) {
				p := pod("first", "made")
				reserve(t, w, p)
				w.reject(t, pod("waits", "made2"))
				w.put(builders.MakePV("m").Class("csi").Hostname("a").ClaimRef("default", "made", "pvc-made").Obj(), pvc("made", "60Gi").Class("csi").Bound("m").Obj(),
					builders.MakeCapacity("r", "csi").Hostname("a").Capacity("40Gi").Obj())
				w.Release(p.UID)
			},
		},
		"of a nominated pod": {
			do: func(t *testing.T, w *testbed) {
				w.put(preemptor("c"))
				w.reject(t, pod("waits", "d"), pod("too-large", "large"), pod("for-another-class", "o"))
				w.remove(preemptor("c"))
			},
			want: []string{"waits"},
		},
		"of a nominated pod whose node is deleted": {
			do: func(t *testing.T, w *testbed) {
				w.put(preemptor("c"))
				w.reject(t, pod("waits", "d"), pod("too-large", "large"))
				w.remove(node("a"), preemptor("c"))
			},
			want: []string{"too-large", "waits"}, // it is not known what the node could reach
		},
		"another pod of its group": {
			do: func(t *testing.T, w *testbed) {
				p := member("gang", "first", "c")
				reserve(t, w, p)
				w.reject(t, member("gang", "waits", "d"), member("other", "in-group", "e"))
				w.Release(p.UID)
			},
			want: []string{"in-group"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTestbed(t, node("a"), node("b"), wffc("local"), wffc("else"), dynamic("csi", "driver"), tracked("driver"), dynamic("untracked", "other"),
					localPV("v", "a", "1Gi").Obj(), pvc("u", "1Gi").Class("untracked").Obj(), builders.MakeCapacity("r", "csi").Hostname("a").Capacity("100Gi").Obj(),
					pvc("c", "1Gi").Obj(), pvc("d", "1Gi").Obj(), pvc("e", "1Gi").Obj(), pvc("large", "2Gi").Obj(), pvc("o", "1Gi").Class("else").Obj(),
					pvc("made", "60Gi").Class("csi").Obj(), pvc("made2", "60Gi").Class("csi").Obj(), pvc("vast", "101Gi").Class("csi").Obj())
				all := w.listen(t)
				tc.do(t, w)
				all.want(t, tc.want...)
				w.check()
				if err := w.CheckIdle(); err != nil && name != "the pod has reserved since it was rejected" {
					t.Error(err)
				}
			})
		})
	}
}

// TestEndedHoldWakes: the hold of bytes for a claim with a selected node ends; the driver's
// report does not change.
func TestEndedHoldWakes(t *testing.T) {
	t.Parallel()
	sent := func() *builders.PVC { return pvc("sent", "60Gi").Class("csi").SelectedNode("b") }
	for name, end := range map[string]func(w *testbed){
		"the claim is deleted":                func(w *testbed) { w.remove(sent().Obj()) },
		"the provisioner deselected the node": func(w *testbed) { w.put(pvc("sent", "60Gi").Class("csi").Obj()) },
		"the claim is recreated":              func(w *testbed) { w.put(pvc("sent", "60Gi").UID("other").Class("csi").Obj()) },
		"the node is deleted":                 func(w *testbed) { w.remove(node("b")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTestbed(t, node("a"), node("b"), dynamic("csi", "driver"), tracked("driver"),
					builders.MakeCapacity("r", "csi").Everywhere().Capacity("100Gi").Obj(),
					sent().Obj(), pvc("c", "50Gi").Class("csi").Obj(), pvc("large", "101Gi").Class("csi").Obj())
				all := w.listen(t)
				w.reject(t, pod("waits", "c"), pod("too-large", "large"))
				w.put(sent().Label("touched", "yes").Obj())
				all.want(t)
				end(w)
				all.want(t, "waits")
				w.check()
			})
		})
	}
}

// TestWokenAtIntervals: a pod that is rejected each time it is woken is woken no more often
// than the scheduling queue would wake it, and no wake-up is lost.
func TestWokenAtIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTestbed(t, node("a"), wffc("local"), localPV("v", "a", "1Gi").Obj(), pvc("c", "1Gi").Obj(), pvc("d", "1Gi").Obj())
		all, first := w.listen(t), pod("first", "c")
		try := func() {
			w.reserve(first, "a")
			w.reject(t, pod("waits", "d"))
			w.Release(first.UID)
		}
		try()
		all.want(t, "waits")
		try()
		all.want(t)
		time.Sleep(wakeInterval) //nolint:forbidigo // the bubble's time
		all.want(t, "waits")
		time.Sleep(wakeInterval) //nolint:forbidigo // the bubble's time
		all.want(t)
	})
}

// TestManyReleases: the number of recorded releases is bounded, and pods are still woken.
func TestManyReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTestbed(t, node("a"), wffc("local"), localPV("v", "a", "1Gi").Obj(), pvc("d", "1Gi").Obj())
		all := w.listen(t)
		for i := range 2 * maxReleases {
			name := fmt.Sprintf("c%d", i)
			w.put(pvc(name, "1Gi").Obj())
			p := pod("first", name)
			w.reserve(p, "a")
			if i == 2*maxReleases-1 {
				w.reject(t, pod("waits", "d"))
			}
			w.Release(p.UID)
		}
		w.mu.RLock() // the bubble's time advances while the test waits for a lock
		got := len(w.releases.began)
		w.mu.RUnlock()
		if got > maxReleases+1 {
			t.Errorf("%d releases are recorded, want %d at most", got, maxReleases)
		}
		all.want(t, "waits")
	})
}

// TestNoListener: without a listener nothing is recorded, and no timer runs.
func TestNoListener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTestbed(t, node("a"), wffc("local"), localPV("v", "a", "1Gi").Obj(), pvc("c", "1Gi").Obj(), pvc("d", "1Gi").Obj())
		stop := w.OnRelease(func(func() []*v1.Pod) {})
		w.reserve(pod("first", "c"), "a")
		w.Release("pod-first")
		stop()
		if w.releases.timer != nil {
			t.Error("the timer runs without a listener")
		}
		clear(w.releases.began)
		w.reserve(pod("first", "c"), "a")
		w.reject(t, pod("waits", "d"))
		w.Release("pod-first")
		if len(w.rejections.byPod) > 0 || len(w.releases.began) > 0 || w.releases.timer != nil {
			t.Errorf("%d rejections and %d releases are kept", len(w.rejections.byPod), len(w.releases.began))
		}
	})
}
