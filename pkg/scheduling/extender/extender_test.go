// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

func names(list ...string) *[]string {
	if list == nil {
		list = []string{}
	}
	return &list
}

func TestFilter(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, extender.ModeFull, localClass(), node("a"), node("b"), volume("v", "b", "1Gi").Obj(),
		claim("c", "1Gi").Obj(), claim("large", "5Gi").Obj(), claim("lost", "1Gi").Bound("w").Obj(),
		volume("w", "b", "1Gi").ClaimRef("default", "lost", "pvc-lost").Phase(v1.VolumeBound).Annotation("stowage.dev/disk", "Replaced").Obj())
	full := &v1.NodeList{Items: []v1.Node{*node("a"), *node("b")}}
	none := extenderv1.FailedNodesMap{}
	for name, tc := range map[string]struct {
		args extenderv1.ExtenderArgs
		want extenderv1.ExtenderFilterResult
	}{
		"names": {
			extenderv1.ExtenderArgs{Pod: pod("p", "c"), NodeNames: names("a", "b")},
			extenderv1.ExtenderFilterResult{NodeNames: names("b"), FailedNodes: none, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"a": match.NoVolume.String()}},
		},
		"nodes": {
			extenderv1.ExtenderArgs{Pod: pod("p", "c"), Nodes: full},
			extenderv1.ExtenderFilterResult{Nodes: &v1.NodeList{Items: full.Items[1:]}, FailedNodes: none, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"a": match.NoVolume.String()}},
		},
		"an unknown node": {
			extenderv1.ExtenderArgs{Pod: pod("p", "c"), NodeNames: names("x", "b")},
			extenderv1.ExtenderFilterResult{NodeNames: names("b"), FailedNodes: none, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"x": unknownNode}},
		},
		"a claim that fits no node": {
			extenderv1.ExtenderArgs{Pod: pod("p", "large"), NodeNames: names("b")},
			extenderv1.ExtenderFilterResult{NodeNames: names(), FailedNodes: none, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"b": match.NoVolume.String()}},
		},
		"the claim's disk was replaced": {
			extenderv1.ExtenderArgs{Pod: pod("p", "lost"), NodeNames: names("b")},
			extenderv1.ExtenderFilterResult{NodeNames: names(), FailedNodes: none, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"b": match.DiskReplaced.String()}},
		},
		"a claim that is missing": {
			extenderv1.ExtenderArgs{Pod: pod("p", "x"), NodeNames: names("a")},
			extenderv1.ExtenderFilterResult{NodeNames: names(), FailedNodes: none, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"a": `persistentvolumeclaim "x" not found`}},
		},
		"no claims": {
			extenderv1.ExtenderArgs{Pod: pod("p"), NodeNames: names("b", "a")},
			extenderv1.ExtenderFilterResult{NodeNames: names("b", "a"), FailedNodes: none, FailedAndUnresolvableNodes: none},
		},
		"no nodes": {
			extenderv1.ExtenderArgs{Pod: pod("p", "c")},
			extenderv1.ExtenderFilterResult{NodeNames: names(), FailedNodes: none, FailedAndUnresolvableNodes: none},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask[extenderv1.ExtenderFilterResult](w, VerbFilter, tc.args)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrioritize: the best fitting volume ranks highest, on the protocol's scale.
func TestPrioritize(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, extender.ModeFull, localClass(), node("a"), node("b"), volume("v", "a", "1Gi").Obj(), volume("w", "b", "2Gi").Obj(), claim("c", "1Gi").Obj())
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want extenderv1.HostPriorityList
	}{
		"claims":    {pod("p", "c"), extenderv1.HostPriorityList{{Host: "a", Score: 10}, {Host: "b", Score: 5}, {Host: "x"}}},
		"no claims": {pod("p"), extenderv1.HostPriorityList{{Host: "a"}, {Host: "b"}, {Host: "x"}}},
		"rejected":  {pod("p", "x"), extenderv1.HostPriorityList{{Host: "a"}, {Host: "b"}, {Host: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask[extenderv1.HostPriorityList](w, VerbPrioritize, extenderv1.ExtenderArgs{Pod: tc.pod, NodeNames: names("a", "b", "x")})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBindStatic: claims, volume and pod are bound when the call returns, and a repeated
// call succeeds.
func TestBindStatic(t *testing.T) {
	t.Parallel()
	p := pod("p", "c")
	w := newTestbed(t, extender.ModeFull, localClass(), node("a"), node("b"), volume("v", "a", "1Gi").Obj(), claim("c", "1Gi").Obj(), p)
	if err, want := w.bindTo(p, "b"), `volumes on node "b" changed while the pod was being scheduled: `+match.NoVolume.String(); err != want {
		t.Errorf("bound where there is no volume: error %q, want %q", err, want)
	}
	if err := w.bindTo(p, "a"); err != "" {
		t.Fatal(err)
	}
	if got := w.claim("c").Spec.VolumeName; got != "v" || w.on(p) != "a" {
		t.Errorf("claim has volume %q, pod is on %q", got, w.on(p))
	}
	if err := w.bindTo(p, "a"); err != "" {
		t.Errorf("the repeated call: %s", err)
	}
	if size := w.cache.Size(); size.Reservations != 0 {
		t.Errorf("%d reservations are left", size.Reservations)
	}
}

// TestBindRejects: calls that must not bind.
func TestBindRejects(t *testing.T) {
	t.Parallel()
	p, elsewhere := pod("p"), pod("elsewhere")
	p.Spec.SchedulerName, elsewhere.Spec.SchedulerName, elsewhere.Spec.NodeName = "ours-too", "ours", "b"
	foreign := pod("foreign")
	foreign.Spec.SchedulerName = "theirs"
	w := newTestbed(t, extender.ModeFull, node("a"), node("b"), p, elsewhere, foreign)
	w.settings.SchedulerNames = []string{"ours", "ours-too"}
	another := p.DeepCopy()
	another.UID = "another"
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"a pod that is gone":      {pod("gone"), "not found"},
		"another pod of its name": {another, "recreated"},
		"a pod on another node":   {elsewhere, `"b" already`},
		"another scheduler's pod": {foreign, `scheduler "theirs", which is not among schedulerNames`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := w.bindTo(tc.pod, "a"); !strings.Contains(got, tc.want) {
				t.Errorf("error %q, want one with %q", got, tc.want)
			}
		})
	}
	if got := w.bindTo(p, "a"); got != "" {
		t.Errorf("a pod of one of schedulerNames: error %q", got)
	}
	if got := w.post(VerbBind, []byte(`{"PodName":"p"}`)); got.Code != http.StatusBadRequest {
		t.Errorf("a call without node: status %d", got.Code)
	}
}

// TestBindProvisions: the node is selected and the pod pinned to it until the volume
// exists.
func TestBindProvisions(t *testing.T) {
	t.Parallel()
	p := pod("p", "made", "c")
	w := newTestbed(t, extender.ModeFull, localClass(), csiClass(), csiDriver(), node("a"), node("b"), capacity("a", "10Gi"), capacity("b", "10Gi"),
		volume("v", "a", "1Gi").Obj(), volume("w", "b", "1Gi").Obj(), claim("c", "1Gi").Obj(), claim("made", "5Gi").Class("csi").Obj(), p)
	if got := *w.filterNames(p, "a", "b").NodeNames; !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("nodes %v before", got)
	}
	for range 2 {
		if err := w.bindTo(p, "a"); !strings.Contains(err, "provision") || !strings.Contains(err, testDriver) {
			t.Fatalf("answer %q, want that volumes are being provisioned", err)
		}
		if got := w.claim("made").Annotations[plan.AnnSelectedNode]; got != "a" {
			t.Fatalf("selected node %q", got)
		}
		got := w.filterNames(p, "a", "b")
		if !slices.Equal(*got.NodeNames, []string{"a"}) || got.FailedAndUnresolvableNodes["b"] != match.NodeNotSelected.String() {
			t.Fatalf("while the volume is provisioned: %v, rejected %v", *got.NodeNames, got.FailedAndUnresolvableNodes)
		}
	}
	// It remains so after the pin has expired: the claim has selected the node.
	w.clock.SetTime(w.clock.Now().Add(2 * testHold))
	if got := *w.filterNames(p, "a", "b").NodeNames; !slices.Equal(got, []string{"a"}) {
		t.Errorf("nodes %v after the pin", got)
	}
	made := volume("pvc-made", "a", "5Gi").Class("csi").ClaimRef("default", "made", "pvc-made").Obj()
	if _, err := w.client.CoreV1().PersistentVolumes().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the volume to be observed", func() bool { return w.cache.Volume("pvc-made") != nil })
	if err := w.bindTo(p, "a"); err != "" {
		t.Fatal(err)
	}
	if w.claim("made").Spec.VolumeName != "pvc-made" || w.claim("c").Spec.VolumeName != "v" || w.on(p) != "a" {
		t.Errorf("claims have %q and %q, pod is on %q", w.claim("made").Spec.VolumeName, w.claim("c").Spec.VolumeName, w.on(p))
	}
}

// TestPinEndsWithTheSelection: the pod is no longer pinned when the provisioner removes
// selected-node.
func TestPinEndsWithTheSelection(t *testing.T) {
	t.Parallel()
	p := pod("p", "made")
	w := newTestbed(t, extender.ModeFull, csiClass(), csiDriver(), node("a"), node("b"), capacity("a", "10Gi"), capacity("b", "10Gi"), claim("made", "5Gi").Class("csi").Obj(), p)
	if err := w.bindTo(p, "a"); !strings.Contains(err, "provision") {
		t.Fatal(err)
	}
	given := w.claim("made")
	delete(given.Annotations, plan.AnnSelectedNode)
	if _, err := w.client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), given, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the claim to be observed without node", func() bool {
		return slices.Equal(*w.filterNames(p, "a", "b").NodeNames, []string{"a", "b"})
	})
}

// TestOneBindAtATime: during a call for the pod another is rejected.
func TestOneBindAtATime(t *testing.T) {
	t.Parallel()
	h := newNodePins(clockAtZero(), testHold)
	if err := h.begin("p", "a"); err != nil {
		t.Fatal(err)
	}
	if err := h.begin("p", "b"); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("error %v, want one that names node a", err)
	}
	h.end("p", false)
	if err := h.begin("p", "b"); err != nil {
		t.Error(err)
	}
}

// TestPinsExpire: expired pins do not count, and the pins that are kept are bounded.
func TestPinsExpire(t *testing.T) {
	t.Parallel()
	clock := clockAtZero()
	h := newNodePins(clock, testHold)
	for i := range 2 * maxPins {
		uid := uid(i)
		if err := h.begin(uid, "a"); err != nil {
			t.Fatal(err)
		}
		h.end(uid, true)
	}
	if got := len(h.provisioning.Keys()); got != maxPins {
		t.Errorf("%d pins are kept, want %d", got, maxPins)
	}
	clock.SetTime(clock.Now().Add(testHold + 1))
	if got := len(h.provisioning.Keys()); got != 0 || len(h.binding) != 0 {
		t.Errorf("%d pins and %d binds are kept after their time", got, len(h.binding))
	}
}

// TestPreempt: only nodes where the claims fit without the victims are kept.
func TestPreempt(t *testing.T) {
	t.Parallel()
	victim := pod("victim")
	victim.Spec.NodeName = "b"
	w := newTestbed(t, extender.ModeFull, localClass(), node("a"), node("b"), volume("v", "b", "1Gi").Obj(), claim("c", "1Gi").Obj(), victim)
	of := &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{{UID: string(victim.UID)}}, NumPDBViolations: 1}
	for name, tc := range map[string]struct {
		args extenderv1.ExtenderPreemptionArgs
		want []string
	}{
		"by identity":    {extenderv1.ExtenderPreemptionArgs{Pod: pod("p", "c"), NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"a": of, "b": of, "x": of}}, []string{"b"}},
		"by pods":        {extenderv1.ExtenderPreemptionArgs{Pod: pod("p", "c"), NodeNameToVictims: map[string]*extenderv1.Victims{"a": {Pods: []*v1.Pod{victim}}, "b": {Pods: []*v1.Pod{victim}}}}, []string{"b"}},
		"no claims":      {extenderv1.ExtenderPreemptionArgs{Pod: pod("p"), NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"a": of}}, []string{"a"}},
		"a rejected pod": {extenderv1.ExtenderPreemptionArgs{Pod: pod("p", "x"), NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"b": of}}, nil},
		"nil victims":    {extenderv1.ExtenderPreemptionArgs{Pod: pod("p", "c"), NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"a": nil, "b": {Pods: []*extenderv1.MetaPod{nil}}}}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask[extenderv1.ExtenderPreemptionResult](w, VerbPreempt, tc.args)
			var kept []string
			for node := range got.NodeNameToMetaVictims {
				kept = append(kept, node)
			}
			slices.Sort(kept)
			if !slices.Equal(kept, tc.want) {
				t.Errorf("kept %v, want %v", kept, tc.want)
			}
		})
	}
}

// TestRequests: requests that are not calls of the protocol.
func TestRequests(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, extender.ModeFull, node("a"))
	large, err := json.Marshal(extenderv1.ExtenderArgs{Pod: builders.MakePod("p").Annotation("a", strings.Repeat("x", testBody)).Obj(), NodeNames: names("a")})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		verb   string
		body   []byte
		status int
		text   string
	}{
		"no JSON":                    {VerbFilter, []byte("{"), http.StatusBadRequest, "read the request"},
		"no pod":                     {VerbFilter, []byte("{}"), http.StatusBadRequest, "Pod"},
		"more than one":              {VerbFilter, []byte("{}{}"), http.StatusBadRequest, "read the request"},
		"an empty body":              {VerbBind, nil, http.StatusBadRequest, "read the request"},
		"too large, in the answer":   {VerbFilter, large, http.StatusOK, "serving.maxBodyBytes"},
		"too large, by status":       {VerbPrioritize, large, http.StatusRequestEntityTooLarge, "nodeCacheCapable"},
		"a verb that does not exist": {"else", nil, http.StatusNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.post(tc.verb, tc.body)
			if got.Code != tc.status || !strings.Contains(got.Body.String(), tc.text) {
				t.Errorf("status %d %q, want %d with %q", got.Code, got.Body, tc.status, tc.text)
			}
		})
	}
}
