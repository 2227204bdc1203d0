// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestAdvisoryHoldsCapacity: a pod that passed filter counts until its node is known or
// its time expires.
func TestAdvisoryHoldsCapacity(t *testing.T) {
	t.Parallel()
	p, q := pod("p", "one"), pod("q", "two")
	w := newTestbed(t, extender.ModeAdvisory, csiClass(), csiDriver(), node("a"), node("b"), capacity("a", "10Gi"), capacity("b", "10Gi"),
		claim("one", "6Gi").Class("csi").Obj(), claim("two", "6Gi").Class("csi").Obj(), p, q)
	passes := func(pod *v1.Pod) []string { return *w.filterNames(pod, "a", "b").NodeNames }
	if got := passes(p); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("the first pod may go to %v", got)
	}
	if got := passes(q); len(got) != 0 {
		t.Errorf("the second pod may go to %v, while the first may go there", got)
	}
	if got := passes(p); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the first pod, retried, may go to %v", got)
	}
	sent := w.claim("one")
	metav1.SetMetaDataAnnotation(&sent.ObjectMeta, plan.AnnSelectedNode, "a")
	if _, err := w.client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), sent, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the second pod to pass on the other node", func() bool { return slices.Equal(passes(q), []string{"b"}) })
}

func TestAdvisoryHoldsExpire(t *testing.T) {
	t.Parallel()
	p, q := pod("p", "one"), pod("q", "two")
	w := newTestbed(t, extender.ModeAdvisory, csiClass(), csiDriver(), node("a"), capacity("a", "10Gi"),
		claim("one", "6Gi").Class("csi").Obj(), claim("two", "6Gi").Class("csi").Obj(), p, q)
	if got := *w.filterNames(p, "a").NodeNames; len(got) != 1 {
		t.Fatal(got)
	}
	w.clock.SetTime(w.clock.Now().Add(testHold))
	if got := *w.filterNames(q, "a").NodeNames; len(got) != 1 {
		t.Errorf("the second pod may go to %v after the expiry of the first", got)
	}
	if w.post(VerbBind, []byte("{}")).Code != http.StatusNotFound || w.post(VerbPreempt, []byte("{}")).Code != http.StatusNotFound {
		t.Error("mode Advisory binds or preempts")
	}
}

// TestInflightNodes: a pod counts on the nodes that filter accepted for it, and on others
// only if they share the capacity.
func TestInflightNodes(t *testing.T) {
	t.Parallel()
	zoned := func(name string) *v1.Node { return builders.MakeNode(name).UID("node-"+name).Label("zone", "z").Obj() }
	zone := builders.MakeCapacity("zone", "csi").Namespace("default").UID("zone").TopologyLabel("zone", "z").Capacity("10Gi").Obj()
	p, q := pod("p", "large"), pod("q", "small")
	for name, tc := range map[string]struct {
		capacity []runtime.Object
		asked    []string // for the first pod
		want     []string // of both nodes, for the second pod
	}{
		"a node that the first pod does not fit": {[]runtime.Object{capacity("a", "10Gi"), capacity("b", "4Gi")}, []string{"a", "b"}, []string{"b"}},
		"a node that was not in the call":        {[]runtime.Object{capacity("a", "10Gi"), capacity("b", "10Gi")}, []string{"a"}, []string{"b"}},
		"nodes that share the capacity":          {[]runtime.Object{zone}, []string{"a"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, extender.ModeAdvisory, append(tc.capacity, csiClass(), csiDriver(), zoned("a"), zoned("b"), p, q,
				claim("large", "8Gi").Class("csi").Obj(), claim("small", "3Gi").Class("csi").Obj())...)
			if got := *w.filterNames(p, tc.asked...).NodeNames; !slices.Contains(got, "a") {
				t.Fatalf("the first pod may go to %v", got)
			}
			if got := *w.filterNames(q, "a", "b").NodeNames; !slices.Equal(got, tc.want) {
				t.Errorf("the second pod may go to %v, want %v", got, tc.want)
			}
		})
	}
}

// TestInflightNotRenewed: a pod that filter accepts repeatedly, but that gets no node,
// counts for the time of one attempt; it counts again after its claims changed.
func TestInflightNotRenewed(t *testing.T) {
	t.Parallel()
	const every, attempts = 10 * time.Second, 30
	p, q := pod("p", "large"), pod("q", "small")
	w := newTestbed(t, extender.ModeAdvisory, csiClass(), csiDriver(), node("a"), capacity("a", "10Gi"), p, q,
		claim("large", "10Gi").Class("csi").Obj(), claim("small", "1Gi").Class("csi").Obj())
	refused := func() (n int) {
		for range attempts {
			w.filterNames(p, "a")
			if len(*w.filterNames(q, "a").NodeNames) == 0 {
				n++
			}
			w.clock.SetTime(w.clock.Now().Add(every))
		}
		return n
	}
	if got, want := refused(), int(testHold/every); got != want {
		t.Errorf("%d of %d attempts of the second pod are rejected, want %d", got, attempts, want)
	}
	changed := w.claim("large")
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, "example.com/changed", "")
	if _, err := w.client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the change to be observed", func() bool { return len(w.cache.Claim("default", "large").Annotations) > 0 })
	w.clock.SetTime(w.clock.Now().Add(testHold)) // the second pod no longer counts
	if len(*w.filterNames(p, "a").NodeNames) == 0 || len(*w.filterNames(q, "a").NodeNames) != 0 {
		t.Error("the first pod does not count after its claim changed")
	}
}

// TestInflightPerNamespace: the number of pods of one namespace that count is bounded.
func TestInflightPerNamespace(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, extender.ModeAdvisory, csiClass(), csiDriver(), node("a"), capacity("a", fmt.Sprintf("%dGi", maxInflightPerNamespace+1)))
	for i := range 3 * maxInflightPerNamespace {
		name := fmt.Sprintf("p-%d", i)
		w.show(claim(name, "1Gi").Class("csi").Obj())
		w.eventually("the claim to be observed", func() bool { return w.cache.Claim("default", name) != nil })
		if got := w.filterNames(pod(name, name), "a"); len(*got.NodeNames) == 0 {
			t.Fatalf("pod %d is rejected: %v", i, got)
		}
		w.clock.SetTime(w.clock.Now().Add(time.Millisecond))
	}
	w.inflight.mu.Lock()
	defer w.inflight.mu.Unlock()
	if got := len(w.inflight.byPod); got != maxInflightPerNamespace {
		t.Errorf("%d pods count, want %d", got, maxInflightPerNamespace)
	}
	for _, of := range w.inflight.byPod {
		w.inflight.remove(of)
	}
	if len(w.inflight.pending) != 0 {
		t.Errorf("%v is still counted", w.inflight.pending)
	}
}
