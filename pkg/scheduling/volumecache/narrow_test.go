// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

func TestNodes(t *testing.T) {
	t.Parallel()
	var ten []runtime.Object
	for i := range 10 {
		ten = append(ten, builders.MakeNode("n"+strconv.Itoa(i)).Hostname("n"+strconv.Itoa(i)).Zone("z"+strconv.Itoa(i%2)).Obj())
	}
	ephemeralPod := pod("owner")
	tests := map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		want    sets.Set[string]
		reason  match.ReasonCode
	}{
		"a bound claim: where its volume is": {
			objects: []runtime.Object{wffc("local"), pvc("c", "1Gi").Bound("v").Obj(), localPV("v", "n3", "1Gi").ClaimRef("default", "c", "pvc-c").Obj()},
			pod:     pod("p", "c"),
			want:    sets.New("n3"),
		},
		"two bound claims on different nodes: no node": {
			objects: []runtime.Object{
				wffc("local"), pvc("c", "1Gi").Bound("v").Obj(), pvc("d", "1Gi").Bound("w").Obj(),
				localPV("v", "n3", "1Gi").ClaimRef("default", "c", "pvc-c").Obj(), localPV("w", "n4", "1Gi").ClaimRef("default", "d", "pvc-d").Obj(),
			},
			pod:    pod("p", "c", "d"),
			reason: match.NodeConflict,
		},
		"a bound claim whose volume is missing": {
			objects: []runtime.Object{wffc("local"), pvc("c", "1Gi").Bound("v").Obj()},
			pod:     pod("p", "c"),
			reason:  match.VolumeMissing,
		},
		"a bound claim whose volume is on all nodes": {
			objects: []runtime.Object{wffc("local"), pvc("c", "1Gi").Bound("v").Obj(), builders.MakePV("v").Capacity("1Gi").ClaimRef("default", "c", "pvc-c").Obj()},
			pod:     pod("p", "c"),
		},
		"a volume reserved for the claim": {
			objects: []runtime.Object{dynamic("local", "csi"), pvc("c", "1Gi").Obj(), localPV("v", "n3", "1Gi").ClaimRef("default", "c", "").Obj()},
			pod:     pod("p", "c"),
			want:    sets.New("n3"),
		},
		"a volume reserved for the claim that does not fit it: no node": {
			objects: []runtime.Object{dynamic("local", "csi"), pvc("c", "2Gi").Obj(), localPV("v", "n3", "1Gi").ClaimRef("default", "c", "").Obj()},
			pod:     pod("p", "c"),
			reason:  match.ReservedVolumeMismatch,
		},
		"a selected node": {
			objects: []runtime.Object{dynamic("local", "csi"), pvc("c", "1Gi").SelectedNode("n5").Obj()},
			pod:     pod("p", "c"),
			want:    sets.New("n5"),
		},
		"a claim that can be provisioned: any node": {
			objects: []runtime.Object{dynamic("local", "csi"), pvc("c", "1Gi").Obj(), localPV("v", "n3", "1Gi").Obj()},
			pod:     pod("p", "c"),
		},
		"a claim that nothing provisions: where volumes are": {
			objects: []runtime.Object{wffc("local"), pvc("c", "2Gi").Obj(), localPV("v", "n3", "2Gi").Obj(), localPV("w", "n4", "2Gi").Obj(), localPV("x", "n5", "1Gi").Obj()},
			pod:     pod("p", "c"),
			want:    sets.New("n3", "n4"),
		},
		"a claim that nothing provisions and nothing fits": {
			objects: []runtime.Object{wffc("local"), pvc("c", "2Gi").Obj(), localPV("x", "n5", "1Gi").Obj()},
			pod:     pod("p", "c"),
			reason:  match.NoVolume,
		},
		"evicting a pod might free a volume: no node is left out": {
			objects: []runtime.Object{
				wffc("local"), pvc("c", "2Gi").Obj(), localPV("v", "n3", "2Gi").Obj(),
				pvc("owner-scratch", "1Gi").OwnedBy(ephemeralPod).Obj(),
			},
			pod: pod("p", "c"),
		},
		"most nodes have volumes: all nodes": {
			objects: func() []runtime.Object {
				objects := []runtime.Object{wffc("local"), pvc("c", "1Gi").Obj()}
				for i := range 8 {
					objects = append(objects, localPV("v"+strconv.Itoa(i), "n"+strconv.Itoa(i), "1Gi").Obj())
				}
				return objects
			}(),
			pod: pod("p", "c"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := tc.objects
			for _, o := range ten {
				objects = append(objects, o.DeepCopyObject())
			}
			w := newTestbed(t, objects...)
			got, reason := w.Nodes(w.demand(tc.pod))
			if diff := cmp.Diff(tc.want, got); diff != "" || reason.Code != tc.reason {
				t.Errorf("reason %q, want %q; nodes (-want +got):\n%s", reason.Code, tc.reason, diff)
			}
			// A node left out must not fit; a node that fits must not be left out.
			for _, node := range nodesOf(w) {
				if w.Fits(w.demand(tc.pod), node).Code == match.Fits && (tc.reason != match.Fits || (got != nil && !got.Has(node.Name))) {
					t.Errorf("node %s fits but is left out", node.Name)
				}
			}
		})
	}
}
