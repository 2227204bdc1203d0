// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

func newByClassTestbed(t testing.TB, objects ...runtime.Object) *testbed {
	t.Helper()
	w := newTestbed(t)
	w.free.byClass = true
	w.put(objects...)
	return w
}

// assign calls Assign for claims in the store, "claim" or "claim on node", and describes what
// it has decided by claim: "volume", "volume for node", "provision on node", or the reason.
func (w *testbed) assign(class string, limit int, of ...Podless) map[string]string {
	w.t.Helper()
	assigned, err := w.Assign(w.Class(class), of, limit)
	if err != nil {
		w.t.Fatal(err)
	}
	w.check()
	got := map[string]string{}
	for i, a := range assigned {
		got[of[i].Claim.Name] = describe(w.t, a)
	}
	return got
}

func describe(t testing.TB, a Assigned) string {
	t.Helper()
	switch p := a.Plan; {
	case a.Err != nil:
		return a.Err.Error()
	case p == nil:
		return a.Reason.String()
	case len(p.Bindings)+len(p.Provisions) != 1 || p.Pod.Name != "":
		t.Fatalf("plan %+v", p)
	case len(p.Provisions) > 0:
		return "provision on " + p.Node
	case p.Node != "":
		return p.Bindings[0].Volume.Name + " for " + p.Node
	}
	return a.Plan.Bindings[0].Volume.Name
}

func nodes(names ...string) (objects []runtime.Object) {
	for _, name := range names {
		objects = append(objects, node(name))
	}
	return objects
}

func TestAssign(t *testing.T) {
	t.Parallel()
	const none = "node(s) didn't find available persistent volumes to bind"
	classOn := func(names ...string) *storagev1.StorageClass {
		return builders.MakeClass("local").BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).
			Provisioner("kubernetes.io/no-provisioner").AllowedTopology(v1.LabelHostname, names...).Obj()
	}
	at := func(c *builders.PVC, node string) Podless { return Podless{Claim: c.Obj(), Node: node} }
	for name, tc := range map[string]struct {
		class   *storagev1.StorageClass
		objects []runtime.Object
		claims  []Podless
		limit   int
		want    map[string]string
	}{
		"too few volumes: the first claims": {
			objects: []runtime.Object{localPV("p1", "n1", "10Gi").Obj(), localPV("p2", "n2", "20Gi").Obj()},
			claims:  []Podless{at(pvc("a", "15Gi"), ""), at(pvc("b", "5Gi"), ""), at(pvc("c", "1Gi"), "")},
			want:    map[string]string{"a": "p2", "b": "p1", "c": none},
		},
		"a claim with a choice leaves the only volume of another": {
			objects: []runtime.Object{localPV("p1", "n1", "10Gi").Label("tier", "gold").Obj(), localPV("p2", "n2", "20Gi").Obj()},
			claims:  []Podless{at(pvc("a", "5Gi"), ""), at(pvc("b", "5Gi").MatchLabel("tier", "gold"), "")},
			want:    map[string]string{"a": "p2", "b": "p1"},
		},
		"a volume that names the claim": {
			class:   classOn("n2"),
			objects: []runtime.Object{localPV("p1", "n1", "10Gi").ClaimRef("default", "a", "").Obj(), localPV("p2", "n2", "5Gi").Obj()},
			claims:  []Podless{at(pvc("a", "5Gi"), ""), at(pvc("b", "5Gi"), "")},
			want:    map[string]string{"a": "p1", "b": "p2"},
		},
		"a volume that names the claim and does not fit": {
			objects: []runtime.Object{localPV("p1", "n1", "1Gi").ClaimRef("default", "a", "").Obj(), localPV("p2", "n2", "5Gi").Obj()},
			claims:  []Podless{at(pvc("a", "5Gi"), "")},
			want:    map[string]string{"a": "node(s) didn't fit the persistent volume reserved for a claim"},
		},
		"allowed topologies, and a node that does not exist": {
			class:   classOn("n2", "gone"),
			objects: []runtime.Object{localPV("p0", "gone", "5Gi").Obj(), localPV("p1", "n1", "5Gi").Obj(), localPV("p2", "n2", "10Gi").Obj()},
			claims:  []Podless{at(pvc("a", "5Gi"), ""), at(pvc("b", "5Gi"), "")},
			want:    map[string]string{"a": "p2", "b": none},
		},
		"on a node": {
			objects: []runtime.Object{localPV("p1", "n1", "5Gi").Obj(), localPV("p2", "n2", "10Gi").Obj()},
			claims:  []Podless{at(pvc("a", "5Gi"), "n2"), at(pvc("b", "5Gi"), "n2"), at(pvc("c", "5Gi"), "gone")},
			want:    map[string]string{"a": "p2 for n2", "b": none, "c": "node(s) didn't match PersistentVolume's node affinity"},
		},
		"on a node that the class does not allow": {
			class:   classOn("n1"),
			objects: []runtime.Object{localPV("p2", "n2", "10Gi").Obj()},
			claims:  []Podless{at(pvc("a", "5Gi"), "n2")},
			want:    map[string]string{"a": none},
		},
		"a claim on a node needs the volume of one on any": {
			objects: []runtime.Object{localPV("p1", "n1", "5Gi").Obj(), localPV("p2", "n2", "10Gi").Obj()},
			claims:  []Podless{at(pvc("a", "5Gi"), ""), at(pvc("b", "5Gi"), "n1")},
			want:    map[string]string{"a": "p2", "b": "p1 for n1"},
		},
		"limit": {
			objects: []runtime.Object{localPV("p1", "n1", "5Gi").Obj(), localPV("p2", "n2", "10Gi").Obj()},
			claims:  []Podless{at(pvc("a", "50Gi"), ""), at(pvc("b", "5Gi"), ""), at(pvc("c", "5Gi"), "")},
			limit:   1,
			want:    map[string]string{"a": none, "b": "p1", "c": ""},
		},
		"a selected node that nothing provisions on is void": {
			objects: []runtime.Object{localPV("p1", "n1", "5Gi").Obj()},
			claims:  []Podless{at(pvc("a", "5Gi").Annotation(plan.AnnSelectedNode, "n2"), "")},
			want:    map[string]string{"a": "p1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.class == nil {
				tc.class = wffc("local")
			}
			w := newByClassTestbed(t, append(nodes("n1", "n2"), tc.class)...)
			w.put(tc.objects...)
			for _, c := range tc.claims {
				w.put(c.Claim)
			}
			if tc.limit == 0 {
				tc.limit = math.MaxInt
			}
			if diff := cmp.Diff(tc.want, w.assign("local", tc.limit, tc.claims...)); diff != "" {
				t.Errorf("assigned (-want +got):\n%s", diff)
			}
			for _, c := range tc.claims {
				w.Release(c.Claim.UID)
			}
			w.check()
			if err := w.CheckIdle(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAssignHolds: what is reserved is not assigned again until it is released.
func TestAssignHolds(t *testing.T) {
	t.Parallel()
	w := newByClassTestbed(t, append(nodes("n1"), wffc("local"), localPV("p1", "n1", "5Gi").Obj())...)
	a, b := Podless{Claim: pvc("a", "5Gi").Obj()}, Podless{Claim: pvc("b", "5Gi").Obj()}
	w.put(a.Claim, b.Claim)
	w.assign("local", 1, a)
	if got := w.assign("local", 1, b)["b"]; got != (match.Reason{Code: match.NoVolume}).String() {
		t.Errorf("b: %q, but a has the only volume", got)
	}
	if got := w.assign("local", 1, a)["a"]; got != "p1" {
		t.Errorf("a: %q, want what is reserved for it", got)
	}
	if got := w.fits(pod("p", "b"), "n1"); got != match.NoVolume {
		t.Errorf("a pod: %s, want that the volume is reserved", got)
	}
	w.Release(a.Claim.UID)
	if got := w.assign("local", 1, b)["b"]; got != "p1" {
		t.Errorf("b: %q after the release", got)
	}
}

// BenchmarkAssign assigns 1,000 claims to 50,000 volumes of 5,000 nodes, and 100,000 claims that no
// volume serves, alone and after 100 that are served, one of them on a node. Targets on two cores: at
// most 50 ms, 500 ms and a second.
func BenchmarkAssign(b *testing.B) {
	for name, tc := range map[string]struct {
		claims int
		size   string
		before int
	}{"served": {1_000, "5Gi", 0}, "not served": {100_000, "500Gi", 0}, "not served after others": {100_000, "500Gi", 100}} {
		b.Run(name, func(b *testing.B) {
			w := newByClassTestbed(b, wffc("local"))
			for n := range 5_000 {
				host := fmt.Sprintf("n%04d", n)
				w.put(node(host))
				for v := range 10 {
					w.put(localPV(fmt.Sprintf("%s-%d", host, v), host, fmt.Sprintf("%dGi", 1+(n+v)%100)).Obj())
				}
			}
			of := make([]Podless, tc.before+tc.claims)
			for i := range of {
				size := tc.size
				if i < tc.before {
					size = "1Gi"
				}
				of[i].Claim = pvc(fmt.Sprintf("c%06d", i), size).Obj()
			}
			if tc.before > 0 {
				of[0].Node = "n0000"
			}
			for b.Loop() {
				if _, err := w.Assign(w.Class("local"), of, math.MaxInt); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				for i := range of {
					w.Release(of[i].Claim.UID)
				}
				b.StartTimer()
			}
		})
	}
}

// TestAssignAnywhere: claims get volumes of a class that need not exist, whatever its topologies and the
// nodes of the volumes, and keep them until they are released.
func TestAssignAnywhere(t *testing.T) {
	t.Parallel()
	w := newByClassTestbed(t)
	w.put(builders.MakePV("small").Class("none").Hostname("gone").Obj(), builders.MakePV("large").Class("none").Capacity("2Gi").Obj(),
		builders.MakePV("huge").Class("none").Capacity("3Gi").Obj(), builders.MakePV("other").Obj())
	limit := 9
	assign := func(class string, claims ...*builders.PVC) (names []string) {
		requests := make([]*match.Request, len(claims))
		for i, claim := range claims {
			requests[i], _ = match.NewRequest(claim.Obj())
		}
		for _, volume := range w.AssignAnywhere(class, requests, limit) {
			name := "none"
			if volume != nil {
				name = volume.Name
			}
			names = append(names, name)
		}
		w.check()
		return names
	}
	claim := func(name, size string) *builders.PVC {
		return builders.MakePVC(name).UID(name).Class("none").Request(size)
	}
	for _, step := range []struct {
		name string
		got  []string
		want []string
	}{
		{"in order", assign("none", claim("a", "2Gi"), claim("b", "1Gi"), claim("c", "4Gi")), []string{"large", "small", "none"}},
		{"what is reserved is not assigned", assign("none", claim("d", "1Gi"), claim("e", "1Gi")), []string{"huge", "none"}},
		{"no class", assign("", builders.MakePVC("f").UID("f")), []string{"other"}},
		{"no volumes", assign("unknown", claim("g", "1Gi")), []string{"none"}},
		{"what is released is", func() []string { w.Release("a"); return assign("none", claim("h", "1Gi")) }(), []string{"large"}},
		{"at most the limit", func() []string {
			limit = 1
			w.Release("b")
			w.Release("h")
			return assign("none", claim("i", "1Gi"), claim("j", "1Gi"))
		}(), []string{"small", "none"}},
	} {
		if diff := cmp.Diff(step.want, step.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}
