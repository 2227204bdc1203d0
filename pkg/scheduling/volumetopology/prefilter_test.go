// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/testing/builders"
)

// TestPreFilterRejects: pods that no node can have for now, and the text for their users.
func TestPreFilterRejects(t *testing.T) {
	t.Parallel()
	ephemeral := builders.MakePod("p").UID("pod-p").Ephemeral("scratch", claim("", "1Gi").Obj()).Obj()
	bad := claim("c", "1Gi").Selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Sideways"}}}).Obj()
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		want    string
	}{
		"the claim does not exist": {
			pod: pod("p", "c"), want: `persistentvolumeclaim "c" not found`,
		},
		"the claim of an ephemeral volume does not exist yet": {
			pod: ephemeral, want: `waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"`,
		},
		"the claim of an ephemeral volume has another owner": {
			objects: []runtime.Object{claim("p-scratch", "1Gi").Obj()},
			pod:     ephemeral, want: `persistentvolumeclaim "p-scratch" was not created for pod "p" (pod is not owner)`,
		},
		"the claim is lost": {
			objects: []runtime.Object{claim("c", "1Gi").Bound("v").Phase(v1.ClaimLost).Obj()},
			pod:     pod("p", "c"), want: `persistentvolumeclaim "c" bound to non-existent persistentvolume "v"`,
		},
		"the claim is being deleted": {
			objects: []runtime.Object{claim("c", "1Gi").Deleting().Obj()},
			pod:     pod("p", "c"), want: `persistentvolumeclaim "c" is being deleted`,
		},
		"the claim's class does not exist": {
			objects: []runtime.Object{claim("c", "1Gi").Obj()},
			pod:     pod("p", "c"), want: `pod has unbound immediate PersistentVolumeClaims: storageclass "local" of persistentvolumeclaim "c" not found`,
		},
		"the claim has no class": {
			objects: []runtime.Object{builders.MakePVC("c").Obj()},
			pod:     pod("p", "c"), want: "pod has unbound immediate PersistentVolumeClaims",
		},
		"the class binds immediately": {
			objects: []runtime.Object{localClass().Immediate().Obj(), claim("c", "1Gi").Obj()},
			pod:     pod("p", "c"), want: "pod has unbound immediate PersistentVolumeClaims",
		},
		"the user named a volume": {
			objects: []runtime.Object{localClass().Obj(), claim("c", "1Gi").VolumeName("v").Obj()},
			pod:     pod("p", "c"), want: "pod has unbound immediate PersistentVolumeClaims",
		},
		"the claim is invalid": {
			objects: []runtime.Object{localClass().Obj(), bad},
			pod:     pod("p", "c"), want: `parse spec.selector of claim default/c: "Sideways" is not a valid label selector operator`,
		},
		"the bound volume is missing": {
			objects: []runtime.Object{node("a").Obj(), claim("c", "1Gi").Bound("v").Obj()},
			pod:     pod("p", "c"), want: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
		},
		"bound volumes on two nodes": {
			objects: []runtime.Object{
				node("a").Obj(), node("b").Obj(), claim("c", "1Gi").Bound("v").Obj(), claim("d", "1Gi").Bound("w").Obj(),
				volume("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c").Obj(), volume("w", "b", "1Gi").ClaimRef("default", "d", "pvc-d").Obj(),
			},
			pod: pod("p", "c", "d"), want: "node(s) didn't match PersistentVolume's node affinity",
		},
		"a volume is reserved for the claim that is too small": {
			objects: []runtime.Object{node("a").Obj(), localClass().Obj(), claim("c", "2Gi").Obj(), volume("v", "a", "1Gi").ClaimRef("default", "c", "").Obj()},
			pod:     pod("p", "c"), want: "node(s) didn't fit the persistent volume reserved for a claim",
		},
		"no volume for the claim on any node": {
			objects: []runtime.Object{node("a").Obj(), localClass().Obj(), claim("c", "1Gi").Obj()},
			pod:     pod("p", "c"), want: "node(s) didn't find available persistent volumes to bind",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, tc.objects...)
			_, status := w.PreFilter(t.Context(), framework.NewCycleState(), tc.pod, nil)
			if status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != tc.want {
				t.Errorf("status %v %q, want UnschedulableAndUnresolvable %q", status.Code(), status.Message(), tc.want)
			}
		})
	}
}

// TestPreFilterSkips: pods without relevant volumes pass every extension point.
func TestPreFilterSkips(t *testing.T) {
	t.Parallel()
	placed := builders.MakePod("p").PVC("missing").Node("a").Obj()
	hostPath := builders.MakePod("p").Volume(v1.Volume{Name: "h", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}}).Obj()
	for name, p := range map[string]*v1.Pod{"no claims": hostPath, "is already on a node": placed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, node("a").Obj())
			state := framework.NewCycleState()
			if _, status := w.PreFilter(t.Context(), state, p, nil); !status.IsSkip() {
				t.Errorf("PreFilter: %v, want Skip", status)
			}
			if status := w.Filter(t.Context(), state, p, w.info("a")); !status.IsSuccess() {
				t.Errorf("Filter: %v", status)
			}
			if _, status := w.Score(t.Context(), state, p, w.info("a")); !status.IsSuccess() {
				t.Errorf("Score: %v", status)
			}
			if status := w.Reserve(t.Context(), state, p, "a"); !status.IsSuccess() {
				t.Errorf("Reserve: %v", status)
			}
			if status := w.PreFlight(t.Context(), state, p, "a"); !status.IsSkip() {
				t.Errorf("PreBindPreFlight: %v, want Skip", status)
			}
			if status := w.PreBind(t.Context(), state, p, "a"); !status.IsSuccess() {
				t.Errorf("PreBind: %v", status)
			}
			w.Unreserve(t.Context(), state, p, "a")
		})
	}
}

// TestNarrowing: the nodes of a cycle; nil for all.
func TestNarrowing(t *testing.T) {
	t.Parallel()
	nodes := []runtime.Object{node("a").Zone("z").Obj(), node("b").Zone("z").Obj(), node("c").Obj(), node("d").Obj(), localClass().Obj(), csiClass().Obj()}
	bound := func(name, node string) []runtime.Object {
		return []runtime.Object{claim(name, "1Gi").Bound(name).Obj(), volume(name, node, "1Gi").ClaimRef("default", name, "pvc-"+name).Obj()}
	}
	tests := map[string]struct {
		objects []runtime.Object
		claims  []string
		want    []string
	}{
		"a bound claim: its volume's node": {
			objects: bound("x", "a"), claims: []string{"x"}, want: []string{"a"},
		},
		"a bound claim of a zone": {
			objects: []runtime.Object{claim("x", "1Gi").Bound("v").Obj(), builders.MakePV("v").Zone("z").ClaimRef("default", "x", "pvc-x").Obj()},
			claims:  []string{"x"}, want: []string{"a", "b"},
		},
		"a bound claim whose volume is everywhere": {
			objects: []runtime.Object{claim("x", "1Gi").Bound("v").Obj(), builders.MakePV("v").ClaimRef("default", "x", "pvc-x").Obj()},
			claims:  []string{"x"},
		},
		"a volume reserved for the claim": {
			objects: []runtime.Object{claim("x", "1Gi").Obj(), volume("v", "c", "1Gi").ClaimRef("default", "x", "").Obj()},
			claims:  []string{"x"}, want: []string{"c"},
		},
		"a selected node": {
			objects: []runtime.Object{claim("x", "1Gi").Class("csi").SelectedNode("b").Obj()}, claims: []string{"x"}, want: []string{"b"},
		},
		"a claim to provision": {
			objects: []runtime.Object{claim("x", "1Gi").Class("csi").Obj()}, claims: []string{"x"},
		},
		"few nodes have a volume": {
			objects: []runtime.Object{claim("x", "1Gi").Obj(), volume("v", "a", "1Gi").Obj(), volume("w", "d", "1Gi").Obj()},
			claims:  []string{"x"}, want: []string{"a", "d"},
		},
		"a bound claim and one to provision": {
			objects: append(bound("x", "a"), claim("y", "1Gi").Class("csi").Obj()), claims: []string{"x", "y"}, want: []string{"a"},
		},
		"a bound claim of a zone, and a selected node in it": {
			objects: []runtime.Object{
				claim("x", "1Gi").Bound("v").Obj(), builders.MakePV("v").Zone("z").ClaimRef("default", "x", "pvc-x").Obj(),
				claim("y", "1Gi").Class("csi").SelectedNode("b").Obj(),
			},
			claims: []string{"x", "y"}, want: []string{"b"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, nodes...)
			w.put(tc.objects...)
			result, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod("p", tc.claims...), nil)
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			var got []string
			if result != nil {
				got = slices.Sorted(slices.Values(result.NodeNames.UnsortedList()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFilterWithoutNarrowing: nominated and hinted nodes bypass the result of PreFilter,
// so Filter must agree with it.
func TestFilterWithoutNarrowing(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), node("b").Obj(),
		claim("c", "1Gi").Bound("v").Obj(), volume("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c").Obj())
	c := w.begin(pod("p", "c"))
	if status := c.filter("a"); !status.IsSuccess() {
		t.Error(status)
	}
	if status := c.filter("b"); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("status %v, want UnschedulableAndUnresolvable", status)
	}
}

// TestStaleSelectedNode: a selected node that the informer does not have excludes no
// other node, whatever its name. The binder checks whether it exists.
func TestStaleSelectedNode(t *testing.T) {
	t.Parallel()
	for _, selected := range []string{"gone", "no/such", "..", "%2e"} {
		t.Run(selected, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, csiClass().Obj(), node("a").Obj(), node("b").Obj(), claim("c", "1Gi").Class("csi").SelectedNode(selected).Obj())
			p, state := pod("p", "c"), framework.NewCycleState()
			if result, status := w.PreFilter(t.Context(), state, p, nil); result != nil || !status.IsSuccess() {
				t.Fatalf("PreFilter names nodes %+v, status %v; want neither", result, status)
			}
			if status := w.Filter(t.Context(), state, p, w.info("a")); !status.IsSuccess() {
				t.Errorf("Filter: %v", status)
			}
		})
	}
}

// TestNoRequestsInTheSchedulingLoop: the loop is serial, so a request to the API server
// for one pod would delay all pods. Only PreBind sends requests.
func TestNoRequestsInTheSchedulingLoop(t *testing.T) {
	t.Parallel()
	victim := holder("victim", "a")
	objects := append(held(victim, deleted("v", "a", "2Gi")), node("a").Obj(), node("b").Obj(), localClass().Obj(), csiClass().Obj(), csiDriver(true),
		capacity("csi-a", "a", "10Gi").Obj(), volume("free", "a", "2Gi").Obj(), claim("static", "2Gi").Obj(),
		claim("bound", "1Gi").Bound("its").Obj(), volume("its", "a", "1Gi").ClaimRef("default", "bound", "pvc-bound").Obj())
	for name, selected := range map[string]string{"none": "", "live": "a", "gone": "gone", "not a node name": "no/such"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, objects...)
			w.put(claim("made", "1Gi").Class("csi").SelectedNode(selected).Obj(), claim("static", "2Gi").SelectedNode(selected).Obj())
			w.client.ClearActions()
			c := w.begin(important("p", "static", "made", "bound"))
			out, err := framework.NewPodInfo(victim)
			if err != nil {
				t.Fatal(err)
			}
			for step, status := range map[string]*fwk.Status{
				"RemovePod": w.RemovePod(t.Context(), c.state, c.pod, out, w.info("a", victim)),
				"AddPod":    w.AddPod(t.Context(), c.state, c.pod, out, w.info("a", victim)),
				"Filter":    c.filter("a", victim),
				"PreScore":  w.PreScore(t.Context(), c.state, c.pod, nil),
				"Reserve":   c.reserve("a"),
			} {
				if !status.IsSuccess() {
					t.Errorf("%s: %v", step, status)
				}
			}
			if _, status := w.Score(t.Context(), c.state, c.pod, w.info("a")); !status.IsSuccess() {
				t.Errorf("Score: %v", status)
			}
			c.filter("b")
			c.unreserve("a")
			if asked := w.client.Actions(); len(asked) > 0 {
				t.Errorf("requests to the API server: %v, want none", asked)
			}
		})
	}
}

// TestPreFilterWaitsForTheCache: a cache that is not synced must not decide.
func TestPreFilterWaitsForTheCache(t *testing.T) {
	t.Parallel()
	w := newTestbedSynced(t, make(chan struct{}), node("a").Obj(), localClass().Obj(), claim("c", "1Gi").Obj(), volume("v", "a", "1Gi").Obj())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the scheduler ends"))
	_, status := w.PreFilter(ctx, framework.NewCycleState(), pod("p", "c"), nil)
	if status.Code() != fwk.Error || !strings.Contains(status.Message(), "the scheduler ends") {
		t.Errorf("status %v %q, want an error with the cause", status.Code(), status.Message())
	}
}
