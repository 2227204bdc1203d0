// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/volumecache/score"
)

// TestScale: package score has the framework's scale.
func TestScale(t *testing.T) {
	t.Parallel()
	//nolint:staticcheck // Kubernetes 1.37 deprecates these names; 1.35 has no others.
	if fwk.MinNodeScore != 0 || fwk.MaxNodeScore != score.Max {
		t.Errorf("the framework's scores are %d to %d, ours 0 to %d", fwk.MinNodeScore, fwk.MaxNodeScore, score.Max)
	}
}

// TestScore: which nodes are preferred, end to end.
func TestScore(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		objects []runtime.Object
		claims  []string
		want    map[string]int64
	}{
		"the volume that fits best": {
			objects: []runtime.Object{volume("v", "a", "10Gi").Obj(), volume("w", "b", "20Gi").Obj(), claim("c", "10Gi").Obj()},
			claims:  []string{"c"},
			want:    map[string]int64{"a": 100, "b": 50},
		},
		"the node with more capacity to provision on": {
			objects: []runtime.Object{csiDriver(true), capacity("a", "a", "100Gi").Obj(), capacity("b", "b", "20Gi").Obj(), claim("c", "10Gi").Class("csi").Obj()},
			claims:  []string{"c"},
			want:    map[string]int64{"a": 90, "b": 50},
		},
		"the last written of several objects for one topology counts": {
			objects: []runtime.Object{
				csiDriver(true), capacity("a1", "a", "20Gi").Obj(), capacity("a2", "a", "100Gi").Obj(), capacity("a3", "a", "40Gi").Obj(),
				capacity("b", "b", "50Gi").Obj(), claim("c", "10Gi").Class("csi").Obj(),
			},
			claims: []string{"c"},
			want:   map[string]int64{"a": 75, "b": 80},
		},
		"a driver that does not track capacity": {
			objects: []runtime.Object{claim("c", "10Gi").Class("csi").Obj()},
			claims:  []string{"c"},
			want:    map[string]int64{"a": 50, "b": 50},
		},
		"only maximumVolumeSize is set": {
			objects: []runtime.Object{
				csiDriver(true), claim("c", "10Gi").Class("csi").Obj(),
				capacity("a", "a", "100Gi").Obj(), sizeOnly("b", "20Gi"),
			},
			claims: []string{"c"},
			want:   map[string]int64{"a": 90, "b": 50},
		},
		"the class by the beta annotation alone": {
			objects: []runtime.Object{csiDriver(true), capacity("a", "a", "100Gi").Obj(), capacity("b", "b", "20Gi").Obj(), betaOnly("c", "csi")},
			claims:  []string{"c"},
			want:    map[string]int64{"a": 99, "b": 95},
		},
		"one claim existing, one provisioned": {
			objects: []runtime.Object{
				csiDriver(true), capacity("a", "a", "100Gi").Obj(), capacity("b", "b", "40Gi").Obj(),
				volume("v", "a", "20Gi").Obj(), volume("w", "b", "10Gi").Obj(), claim("c", "10Gi").Obj(), claim("d", "10Gi").Class("csi").Obj(),
			},
			claims: []string{"c", "d"},
			want:   map[string]int64{"a": 70, "b": 88},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, localClass().Obj(), csiClass().Obj(), node("a").Obj(), node("b").Obj())
			w.put(tc.objects...)
			c := w.begin(pod("p", tc.claims...))
			if status := w.PreScore(t.Context(), c.state, c.pod, nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			got := map[string]int64{}
			for node := range tc.want {
				score, status := w.Score(t.Context(), c.state, c.pod, w.info(node))
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				got[node] = score
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPreScoreSkips: nodes are not compared if all claims are bound.
func TestPreScoreSkips(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), claim("c", "1Gi").Bound("v").Obj(),
		volume("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c").Obj())
	for name, p := range map[string]*cycle{"bound claims": w.begin(pod("p", "c")), "no claims": w.begin(pod("q"))} {
		if status := w.PreScore(t.Context(), p.state, p.pod, nil); !status.IsSkip() {
			t.Errorf("%s: status %v, want Skip", name, status)
		}
	}
}
