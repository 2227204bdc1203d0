// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestPlacement compares the result on each node: the reason why the pod does not fit, or
// the volumes that Reserve assigns to its claims.
func TestPlacement(t *testing.T) {
	t.Parallel()
	type outcome = map[string]any // node → match.ReasonCode or claim → volume
	type got = map[string]string
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		want    outcome
	}{
		"the smallest volume that suffices": {
			objects: []runtime.Object{
				node("a"), node("b"), wffc("local"), pvc("c", "10Gi").Obj(),
				localPV("small", "a", "5Gi").Obj(), localPV("right", "a", "10Gi").Obj(), localPV("large", "a", "20Gi").Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": got{"c": "right"}, "b": match.NoVolume},
		},
		"two claims, one small volume: the first must not take it from the second": {
			objects: []runtime.Object{
				node("a"), wffc("local"),
				pvc("any", "1Gi").Obj(), pvc("gold", "2Gi").MatchLabel("tier", "gold").Obj(),
				localPV("v1", "a", "2Gi").Label("tier", "gold").Obj(), localPV("v2", "a", "5Gi").Obj(),
			},
			pod:  pod("p", "any", "gold"),
			want: outcome{"a": got{"any": "v2", "gold": "v1"}},
		},
		"access modes: a claim that needs fewer does not take the only volume with more": {
			objects: []runtime.Object{
				node("a"), wffc("local"),
				pvc("rwo", "1Gi").Obj(), pvc("rwx", "1Gi").AccessModes(v1.ReadWriteMany).Obj(),
				localPV("v1", "a", "1Gi").AccessModes(v1.ReadWriteOnce, v1.ReadWriteMany).Obj(), localPV("v2", "a", "2Gi").Obj(),
			},
			pod:  pod("p", "rwo", "rwx"),
			want: outcome{"a": got{"rwo": "v2", "rwx": "v1"}},
		},
		"one claim in two volumes of the pod needs one volume": {
			objects: []runtime.Object{node("a"), wffc("local"), pvc("c", "1Gi").Obj(), localPV("v", "a", "1Gi").Obj()},
			pod:     pod("p", "c", "c"),
			want:    outcome{"a": got{"c": "v"}},
		},
		"volumes of several segments of one node are one choice": {
			objects: []runtime.Object{
				builders.MakeNode("a").Hostname("a").Zone("z").Obj(), wffc("local"), pvc("x", "1Gi").Obj(), pvc("y", "1Gi").Obj(),
				localPV("host", "a", "3Gi").Obj(),
				builders.MakePV("zone").Class("local").Capacity("2Gi").Zone("z").AccessModes(v1.ReadWriteOnce).Phase(v1.VolumeAvailable).Obj(),
				builders.MakePV("anywhere").Class("local").Capacity("1Gi").AccessModes(v1.ReadWriteOnce).Phase(v1.VolumeAvailable).Obj(),
			},
			pod:  pod("p", "x", "y"),
			want: outcome{"a": got{"x": "zone", "y": "anywhere"}}, // as good as the reverse
		},
		"matchFields forbid the other node": {
			objects: []runtime.Object{
				node("a"), node("b"), wffc("local"), pvc("c", "1Gi").Obj(),
				builders.MakePV("v").Class("local").Capacity("1Gi").NodeName("a").AccessModes(v1.ReadWriteOnce).Phase(v1.VolumeAvailable).Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": got{"c": "v"}, "b": match.NoVolume},
		},
		"a pending, released or deleted volume is not free": {
			objects: []runtime.Object{
				node("a"), wffc("local"), pvc("c", "1Gi").Obj(),
				localPV("pending", "a", "1Gi").Phase(v1.VolumePending).Obj(),
				localPV("released", "a", "1Gi").Phase(v1.VolumeReleased).ClaimRef("default", "old", "pvc-old").Obj(),
				localPV("deleting", "a", "1Gi").Deleting().Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": match.NoVolume},
		},
		"a volume reserved for the claim comes first, whatever its class, phase and labels": {
			objects: []runtime.Object{
				node("a"), node("b"), wffc("local"), pvc("c", "1Gi").MatchLabel("tier", "gold").Obj(),
				localPV("other", "a", "1Gi").Label("tier", "gold").Obj(), localPV("elsewhere", "b", "1Gi").Label("tier", "gold").Obj(),
				localPV("mine", "a", "9Gi").Class("odd").Phase(v1.VolumeBound).ClaimRef("default", "c", "").Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": got{"c": "mine"}, "b": match.ReservedVolumeMismatch},
		},
		"a volume reserved for an earlier claim of that name is not the claim's": {
			objects: []runtime.Object{
				node("a"), wffc("local"), pvc("c", "1Gi").Obj(),
				localPV("old", "a", "1Gi").ClaimRef("default", "c", "pvc-former").Obj(), localPV("new", "a", "2Gi").Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": got{"c": "new"}},
		},
		"a volume reserved for the claim that is too small: no node fits": {
			objects: []runtime.Object{
				node("a"), dynamic("local", "csi"), pvc("c", "2Gi").Obj(),
				localPV("mine", "a", "1Gi").ClaimRef("default", "c", "").Obj(), localPV("other", "a", "2Gi").Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": match.ReservedVolumeMismatch},
		},
		"bound claims: where their volumes are": {
			objects: []runtime.Object{
				node("a"), node("b"), wffc("local"), pvc("c", "1Gi").Bound("v").Obj(),
				localPV("v", "a", "1Gi").Phase(v1.VolumeBound).ClaimRef("default", "c", "pvc-c").Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": got{}, "b": match.NodeConflict},
		},
		"a bound claim whose volume does not exist": {
			objects: []runtime.Object{node("a"), wffc("local"), pvc("c", "1Gi").Bound("v").Obj()},
			pod:     pod("p", "c"),
			want:    outcome{"a": match.VolumeMissing},
		},
		"claims that no volume serves are provisioned": {
			objects: []runtime.Object{
				node("a"), dynamic("local", "csi"), pvc("x", "1Gi").Obj(), pvc("y", "5Gi").Obj(), localPV("v", "a", "2Gi").Obj(),
			},
			pod:  pod("p", "x", "y"),
			want: outcome{"a": got{"x": "v", "y": "(provision)"}},
		},
		"allowed topologies bound provisioning, not existing volumes": {
			objects: []runtime.Object{
				builders.MakeNode("a").Hostname("a").Zone("in").Obj(), builders.MakeNode("b").Hostname("b").Zone("out").Obj(),
				builders.MakeNode("c").Hostname("c").Zone("out").Obj(),
				builders.MakeClass("local").BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).Provisioner("csi").AllowedTopology(v1.LabelTopologyZone, "in").Obj(),
				pvc("x", "1Gi").Obj(), localPV("v", "b", "2Gi").Obj(),
			},
			pod:  pod("p", "x"),
			want: outcome{"a": got{"x": "(provision)"}, "b": got{"x": "v"}, "c": match.TopologyNotAllowed},
		},
		"a selected node is the only one, and its claim gets no existing volume": {
			objects: []runtime.Object{
				node("a"), node("b"), dynamic("local", "csi"), pvc("c", "1Gi").SelectedNode("a").Obj(),
				localPV("va", "a", "1Gi").Obj(), localPV("vb", "b", "1Gi").Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": got{"c": "(provision)"}, "b": match.NodeNotSelected},
		},
		"capacity is summed over the pod's claims": {
			objects: []runtime.Object{
				node("a"), node("b"), dynamic("local", "csi"), tracked("csi"), pvc("x", "60Gi").Obj(), pvc("y", "60Gi").Obj(),
				builders.MakeCapacity("cap-a", "local").Hostname("a").Capacity("100Gi").Obj(),
				builders.MakeCapacity("cap-b", "local").Hostname("b").Capacity("120Gi").Obj(),
			},
			pod:  pod("p", "x", "y"),
			want: outcome{"a": match.NotEnoughSpace, "b": got{"x": "(provision)", "y": "(provision)"}},
		},
		"maximumVolumeSize bounds each claim, and alone bounds no sum": {
			objects: []runtime.Object{
				node("a"), node("b"), dynamic("local", "csi"), tracked("csi"), pvc("x", "60Gi").Obj(), pvc("y", "60Gi").Obj(),
				builders.MakeCapacity("cap-a", "local").Hostname("a").Max("60Gi").Obj(),
				builders.MakeCapacity("cap-b", "local").Hostname("b").Capacity("500Gi").Max("50Gi").Obj(),
			},
			pod:  pod("p", "x", "y"),
			want: outcome{"a": got{"x": "(provision)", "y": "(provision)"}, "b": match.NotEnoughSpace},
		},
		"no capacity object of a driver that tracks capacity: no space": {
			objects: []runtime.Object{node("a"), dynamic("local", "csi"), tracked("csi"), pvc("x", "1Gi").Obj()},
			pod:     pod("p", "x"),
			want:    outcome{"a": match.NotEnoughSpace},
		},
		"a capacity object without topology is reachable from nowhere, an empty topology from everywhere": {
			objects: []runtime.Object{
				node("a"), dynamic("local", "csi"), dynamic("other", "csi"), tracked("csi"), pvc("x", "1Gi").Obj(), pvc("y", "1Gi").Class("other").Obj(),
				builders.MakeCapacity("nowhere", "local").Topology(nil).Capacity("100Gi").Obj(),
				builders.MakeCapacity("everywhere", "other").Topology(&metav1.LabelSelector{}).Capacity("100Gi").Obj(),
			},
			pod:  pod("p", "y", "x"),
			want: outcome{"a": match.NotEnoughSpace},
		},
		"an existing volume serves the larger claim, a small capacity pool the smaller": {
			objects: []runtime.Object{
				node("a"), dynamic("local", "csi"), tracked("csi"), pvc("x", "1Gi").Obj(), pvc("y", "10Gi").Obj(),
				localPV("v", "a", "10Gi").Obj(), builders.MakeCapacity("cap", "local").Hostname("a").Capacity("5Gi").Obj(),
			},
			pod:  pod("p", "x", "y"),
			want: outcome{"a": got{"x": "(provision)", "y": "v"}},
		},
		"volume mode and attributes class must be equal": {
			objects: []runtime.Object{
				node("a"), wffc("local"), pvc("c", "1Gi").Block().AttributesClass("gold").Obj(),
				localPV("fs", "a", "1Gi").AttributesClass("gold").Obj(), localPV("plain", "a", "1Gi").Block().Obj(),
				localPV("right", "a", "3Gi").Block().AttributesClass("gold").Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": got{"c": "right"}},
		},
		"the beta annotation names the class on both sides": {
			objects: []runtime.Object{
				node("a"), wffc("local"), pvc("c", "1Gi").Class("other").BetaClass("local").Obj(),
				localPV("v", "a", "1Gi").Class("other").BetaClass("local").Obj(),
			},
			pod:  pod("p", "c"),
			want: outcome{"a": got{"c": "v"}},
		},
		"a selector that no label index serves": {
			objects: []runtime.Object{
				builders.MakeNode("a").Hostname("a").Zone("z").Obj(), builders.MakeNode("b").Hostname("b").Zone("z").Obj(), wffc("local"),
				pvc("c", "1Gi").MatchExpression("tier", metav1.LabelSelectorOpNotIn, "gold").Obj(),
				pvc("d", "1Gi").MatchExpression("tier", metav1.LabelSelectorOpExists).Obj(),
				localPV("v1", "a", "1Gi").Zone("z").Label("tier", "gold").Obj(), localPV("v2", "a", "2Gi").Zone("z").Label("tier", "iron").Obj(),
			},
			pod:  pod("p", "c", "d"),
			want: outcome{"a": got{"c": "v2", "d": "v1"}, "b": got{"c": "v2", "d": "v1"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, tc.objects...)
			w.check()
			for node, want := range tc.want {
				code, fits := want.(match.ReasonCode)
				if got := w.fits(tc.pod, node); got != code {
					t.Errorf("node %s: Fits returns %q, want %q", node, got, code)
				}
				reserved := w.reserve(tc.pod, node)
				if fits { // want a reason
					if reserved != nil {
						t.Errorf("node %s: Reserve assigned %v though the pod does not fit", node, reserved)
					}
				} else if diff := cmp.Diff(want, any(reserved)); diff != "" {
					t.Errorf("node %s: reserved (-want +got):\n%s", node, diff)
				}
				w.Release(tc.pod.UID)
				w.check()
			}
		})
	}
}

// TestLabelIndexIsBounded: users choose the label keys of their selectors. The index is
// bounded, and results are correct beyond the bound.
func TestLabelIndexIsBounded(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), wffc("local"))
	for i := range 2 * maxLabelKeys {
		key := "key-" + strconv.Itoa(i)
		w.put(localPV("v"+key, "a", "1Gi").Label(key, "x").Obj(), pvc(key, "1Gi").MatchLabel(key, "x").Obj())
		if got := w.reserve(pod("p"+key, key), "a"); got[key] != "v"+key {
			t.Fatalf("claim with selector on %s got %v", key, got)
		}
	}
	if got := len(w.free.class["local"].labelKeys); got != maxLabelKeys {
		t.Errorf("volumes are indexed by %d label keys, want %d", got, maxLabelKeys)
	}
}

// TestNodesOfOneName: decisions from a node's own pools are correct after another node
// with the same hostname label is created, and after one is deleted.
func TestNodesOfOneName(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), wffc("local"), pvc("small", "1Gi").Obj(), pvc("large", "9Gi").Obj(), pvc("another", "1Gi").Obj(), localPV("v", "a", "5Gi").Obj())
	twin := builders.MakeNode("twin").UID("node-twin").Hostname("a")
	steps := []struct {
		name   string
		change func()
		want   map[string]match.ReasonCode // for the small claim, by node
	}{
		{"alone", func() {}, map[string]match.ReasonCode{"a": match.Fits}},
		{"the twin is created", func() { w.put(twin.Obj()) }, map[string]match.ReasonCode{"a": match.Fits, "twin": match.Fits}},
		{"the volume is reserved", func() { w.reserve(pod("other", "another"), "a") }, map[string]match.ReasonCode{"a": match.NoVolume, "twin": match.NoVolume}},
		{"the volume is released", func() { w.Release("pod-other") }, map[string]match.ReasonCode{"a": match.Fits, "twin": match.Fits}},
		{"the twin has another hostname", func() { w.put(twin.Hostname("b").Obj()) }, map[string]match.ReasonCode{"a": match.Fits, "twin": match.NoVolume}},
		{"the twin has the same hostname again", func() { w.put(twin.Hostname("a").Obj()) }, map[string]match.ReasonCode{"a": match.Fits, "twin": match.Fits}},
		{"the first node is deleted", func() { w.remove(node("a")) }, map[string]match.ReasonCode{"twin": match.Fits}},
	}
	for _, step := range steps {
		step.change()
		w.check()
		for name, want := range step.want {
			if got := w.fits(pod("p", "large"), name); got != match.NoVolume {
				t.Errorf("%s: %v on node %s for a claim that is too large", step.name, got, name)
			}
			if got := w.fits(pod("p", "small"), name); got != want {
				t.Errorf("%s: %v on node %s, want %v", step.name, got, name, want)
			}
		}
	}
}

// TestManyClaims: pods with few and with many claims are solved by different algorithms,
// with the same result.
func TestManyClaims(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, match.MaxExact, match.MaxExact + 1, 3 * match.MaxExact} {
		w := newTestbed(t, node("enough"), node("short"), wffc("local"))
		var names []string
		for i := range n {
			names = append(names, "c"+strconv.Itoa(i))
			w.put(pvc(names[i], strconv.Itoa(1+i)+"Gi").Obj(), localPV("e"+strconv.Itoa(i), "enough", strconv.Itoa(1+i)+"Gi").Obj())
			if i > 0 {
				w.put(localPV("s"+strconv.Itoa(i), "short", strconv.Itoa(1+i)+"Gi").Obj())
			}
		}
		many := pod("many", names...)
		if got := w.fits(many, "enough"); got != match.Fits {
			t.Errorf("%d claims: %v with a volume for each", n, got)
		}
		if got := w.fits(many, "short"); got != match.NoVolume {
			t.Errorf("%d claims: %v with a volume too few", n, got)
		}
	}
}

// TestClaimsAreCompiledOnce: a claim with a selector is compiled once for each of its
// states, and the result is dropped with the claim.
func TestClaimsAreCompiledOnce(t *testing.T) {
	t.Parallel()
	selecting := func(tier string) *builders.PVC { return pvc("c", "1Gi").MatchLabel("tier", tier) }
	w := newTestbed(t, node("a"), wffc("local"), localPV("v", "a", "1Gi").Label("tier", "gold").Obj(), selecting("gold").Obj())
	p := pod("p", "c")
	request := func() *match.Request { return w.demand(p).groups[0].pending[0].Request }
	first := request()
	if request() != first {
		t.Error("the claim was compiled again, though it has not changed")
	}
	w.put(selecting("iron").Obj())
	if got := w.fits(p, "a"); request() == first || got != match.NoVolume {
		t.Errorf("after the claim has changed, Fits returns %q", got)
	}
	w.put(selecting("gold").UID("another").Obj())
	if got := w.fits(p, "a"); got != match.Fits {
		t.Errorf("for another claim of the name, Fits returns %q", got)
	}
	last := w.claim("c")
	w.remove(last)
	if _, err := w.request(last); err != nil || len(w.compiled.byClaim) != 0 {
		t.Errorf("error %v; %d claims are kept, want none after deletion", err, len(w.compiled.byClaim))
	}
}
