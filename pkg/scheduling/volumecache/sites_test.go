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
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

// registered are the CSINodes of nodes with the driver.
func registered(driver string, names ...string) (objects []runtime.Object) {
	for _, name := range names {
		objects = append(objects, &storagev1.CSINode{
			ObjectMeta: builders.MakeNode(name).Obj().ObjectMeta, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: name}}},
		})
	}
	return objects
}

func TestAssignProvisions(t *testing.T) {
	t.Parallel()
	const driver, tooSmall, notAllowed = "csi.example.com", "node(s) did not have enough free storage", "node(s) didn't match the storage class's allowed topologies"
	capacity := func(node, size string) runtime.Object {
		return builders.MakeCapacity("c-"+node, "local").Capacity(size).Hostname(node).Obj()
	}
	cordoned, notReady := node("n9"), node("n8")
	cordoned.Spec.Unschedulable, notReady.Status.Conditions = true, nil
	claims := func(sizes ...string) (all []Podless) {
		for i, size := range sizes {
			all = append(all, Podless{Claim: pvc(fmt.Sprint("c", i), size).Obj()})
		}
		return all
	}
	on := func(p Podless, node string, rejected ...string) []Podless {
		p.Node, p.Rejected = node, sets.New(rejected...)
		return []Podless{p}
	}
	for name, tc := range map[string]struct {
		tracked bool
		objects []runtime.Object
		claims  []Podless
		limit   int
		want    map[string]string
	}{
		"existing volumes first": {
			objects: append(nodes("n1"), localPV("p1", "n1", "5Gi").Obj()),
			claims:  claims("1Gi", "1Gi"), want: map[string]string{"c0": "p1", "c1": "provision on n1"},
		},
		"nodes that take no pods": {
			objects: []runtime.Object{cordoned, notReady}, claims: claims("1Gi"), want: map[string]string{"c0": notAllowed},
		},
		"most capacity left": {
			tracked: true, objects: append(nodes("n1", "n2"), capacity("n1", "10Gi"), capacity("n2", "15Gi")),
			claims: claims("6Gi", "6Gi", "6Gi", "4Gi", "4Gi"),
			want:   map[string]string{"c0": "provision on n2", "c1": "provision on n1", "c2": "provision on n2", "c3": "provision on n1", "c4": tooSmall},
		},
		"a driver that is not registered": {
			tracked: true, objects: append(nodes("n1", "n3"), capacity("n1", "10Gi"), capacity("n3", "15Gi")),
			claims: claims("6Gi"), want: map[string]string{"c0": "provision on n1"},
		},
		"limit": {
			objects: nodes("n1"), claims: claims("1Gi", "1Gi"), limit: 1, want: map[string]string{"c0": "provision on n1", "c1": ""},
		},
		"namespaces take turns within the limit": {
			objects: nodes("n1"), claims: append(claims("1Gi", "1Gi", "1Gi"), Podless{Claim: pvc("z", "1Gi").Namespace("other").Obj()}), limit: 2,
			want: map[string]string{"c0": "provision on n1", "c1": "", "c2": "", "z": "provision on n1"},
		},
		"claims that are too large": {
			tracked: true, objects: append(nodes("n1", "n2"), capacity("n1", "10Gi"), capacity("n2", "15Gi")),
			claims: claims("20Gi", "16Gi", "14Gi", "14Gi", "11Gi", "10Gi", "1Gi"),
			want: map[string]string{"c0": tooSmall, "c1": tooSmall, "c2": "provision on n2", "c3": tooSmall, "c4": tooSmall,
				"c5": "provision on n1", "c6": "provision on n2"},
		},
		"on a node": {
			tracked: true, objects: append(nodes("n1", "n2"), capacity("n1", "10Gi"), capacity("n2", "15Gi")),
			claims: on(claims("6Gi")[0], "n1"), want: map[string]string{"c0": "provision on n1"},
		},
		"on a node without enough capacity": {
			tracked: true, objects: append(nodes("n1", "n2"), capacity("n1", "5Gi"), capacity("n2", "15Gi")),
			claims: on(claims("6Gi")[0], "n1"), want: map[string]string{"c0": tooSmall},
		},
		"a node was rejected": {
			tracked: true, objects: append(nodes("n1", "n2"), capacity("n1", "10Gi"), capacity("n2", "15Gi")),
			claims: on(claims("6Gi")[0], "", "n2"), want: map[string]string{"c0": "provision on n1"},
		},
		"all nodes were rejected": {
			objects: nodes("n1"), claims: on(claims("6Gi")[0], "", "n1"), want: map[string]string{"c0": "provision on n1"},
		},
		"selected before": {
			objects: nodes("n1", "n2"), claims: []Podless{{Claim: pvc("c0", "1Gi").Annotation(plan.AnnSelectedNode, "n2").Obj()}},
			want: map[string]string{"c0": "provision on n2"},
		},
		"selected before, and restricted to another": {
			objects: nodes("n1", "n2"), claims: []Podless{{Claim: pvc("c0", "1Gi").Annotation(plan.AnnSelectedNode, "n2").Obj(), Node: "n1"}},
			want: map[string]string{"c0": "node(s) were not the node selected for provisioning"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newByClassTestbed(t, append(registered(driver, "n1", "n2"), dynamic("local", driver))...)
			if tc.tracked {
				w.put(tracked(driver))
			}
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
		})
	}
}

// TestAssignSpreads: claims of a driver that reports no capacity do not all go to one node.
func TestAssignSpreads(t *testing.T) {
	t.Parallel()
	w := newByClassTestbed(t, append(nodes("n1", "n2", "n3", "n4"), dynamic("local", "csi.example.com"))...)
	on := map[string]int{}
	for i := range 200 {
		claim := pvc(fmt.Sprint("c", i), "1Gi").Obj()
		w.put(claim)
		for _, got := range w.assign("local", 1, Podless{Claim: claim}) {
			on[got]++
		}
	}
	for node, n := range on {
		if len(on) != 4 || n < 20 {
			t.Errorf("%s: %d of 200, in all %v", node, n, on)
		}
	}
}

// BenchmarkAssignFull assigns 100,000 claims to 5,000 nodes that have not enough capacity left. Target on
// two cores: at most 500 ms.
func BenchmarkAssignFull(b *testing.B) {
	for name, change := range map[string]func(i int, of *Podless){
		"ever smaller": func(i int, of *Podless) {
			of.Claim.Spec.Resources.Requests[v1.ResourceStorage] = *resource.NewQuantity(1<<40-int64(i), resource.BinarySI)
		},
		"on nodes": func(i int, of *Podless) { of.Node = fmt.Sprintf("n%04d", i%5_000) },
	} {
		b.Run(name, func(b *testing.B) {
			w := newByClassTestbed(b, dynamic("local", "csi.example.com"), tracked("csi.example.com"))
			for n := range 5_000 {
				host := fmt.Sprintf("n%04d", n)
				w.put(node(host), registered("csi.example.com", host)[0], builders.MakeCapacity("c-"+host, "local").Capacity("10Gi").Hostname(host).Obj())
			}
			var of []Podless
			for i := range 100_000 {
				of = append(of, Podless{Claim: pvc(fmt.Sprintf("c%06d", i), "500Gi").Obj()})
				change(i, &of[i])
			}
			for b.Loop() {
				if _, err := w.Assign(w.Class("local"), of, math.MaxInt); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
