// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"stowage.dev/stowage/pkg/testing/builders"
)

func affinity(terms ...v1.NodeSelectorTerm) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
}

func TestFromNodeAffinity(t *testing.T) {
	t.Parallel()
	term, req := builders.Term, builders.Requirement
	node := builders.MakeNode("n1").Hostname("host-1").Zone("z1").Label("cpus", "8").Obj()
	tests := map[string]struct {
		affinity *v1.VolumeNodeAffinity
		want     bool
		anchors  []Anchor // nil: unanchored
		// differs: the stock plugin, which evaluates labels only, has another result.
		differs bool
	}{
		"nil affinity is everywhere":              {nil, true, nil, false},
		"affinity without required is everywhere": {&v1.VolumeNodeAffinity{}, true, nil, false},
		"no term is nowhere":                      {affinity(), false, nil, false},
		"an empty term is nowhere":                {affinity(term()), false, nil, false},
		"an existing value":                       {affinity(term(req(v1.LabelHostname, "In", "host-1"))), true, []Anchor{{v1.LabelHostname, "host-1"}}, false},
		"another value":                           {affinity(term(req(v1.LabelHostname, "In", "host-2"))), false, []Anchor{{v1.LabelHostname, "host-2"}}, false},
		"an absent key":                           {affinity(term(req("absent", "In", "x"))), false, []Anchor{{"absent", "x"}}, false},
		"one of several values":                   {affinity(term(req(v1.LabelTopologyZone, "In", "z0", "z1"))), true, []Anchor{{v1.LabelTopologyZone, "z0"}, {v1.LabelTopologyZone, "z1"}}, false},
		"terms are ORed":                          {affinity(term(req("absent", "In", "x")), term(req(v1.LabelTopologyZone, "In", "z1"))), true, []Anchor{{"absent", "x"}, {v1.LabelTopologyZone, "z1"}}, false},
		"requirements are ANDed":                  {affinity(term(req(v1.LabelTopologyZone, "In", "z1"), req("cpus", "In", "4"))), false, []Anchor{{"cpus", "4"}}, false},
		"the host name is the best anchor":        {affinity(term(req("cpus", "In", "8"), req(v1.LabelHostname, "In", "host-1"))), true, []Anchor{{v1.LabelHostname, "host-1"}}, false},
		"NotIn":                                   {affinity(term(req("cpus", "NotIn", "4"))), true, nil, false},
		"Exists":                                  {affinity(term(req("cpus", "Exists"))), true, nil, false},
		"DoesNotExist":                            {affinity(term(req("cpus", "DoesNotExist"))), false, nil, false},
		"Gt":                                      {affinity(term(req("cpus", "Gt", "4"))), true, nil, false},
		"Lt":                                      {affinity(term(req("cpus", "Lt", "4"))), false, nil, false},
		"one term without anchor: unanchored":     {affinity(term(req(v1.LabelHostname, "In", "host-1")), term(req("cpus", "Exists"))), true, nil, false},
		"a term that cannot be parsed is nowhere": {affinity(term(req("cpus", "Gt", "four"))), false, nil, false},
		"matchFields of the node":                 {affinity(builders.FieldTerm(req("metadata.name", "In", "n1"))), true, []Anchor{{NodeName, "n1"}}, false},
		"matchFields of another node":             {affinity(builders.FieldTerm(req("metadata.name", "In", "n2"))), false, []Anchor{{NodeName, "n2"}}, true},
		"matchFields NotIn":                       {affinity(builders.FieldTerm(req("metadata.name", "NotIn", "n1"))), false, nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := FromNodeAffinity(tc.affinity)
			if got := c.Admits(node); got != tc.want {
				t.Errorf("Admits is %t, want %t", got, tc.want)
			}
			if !c.unanchored {
				if diff := cmp.Diff(tc.anchors, c.anchors); diff != "" {
					t.Errorf("anchors (-want +got):\n%s", diff)
				}
			} else if tc.anchors != nil {
				t.Errorf("not anchored, want %v", tc.anchors)
			}
			pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{NodeAffinity: tc.affinity}}
			if oracle := volume.CheckNodeAffinity(pv, node.Labels) == nil; (oracle != tc.want) != tc.differs {
				t.Errorf("component-helpers returns %t, Admits %t; expected to differ: %t", oracle, tc.want, tc.differs)
			}
		})
	}
}

func TestKeyIsCanonical(t *testing.T) {
	t.Parallel()
	term, req := builders.Term, builders.Requirement
	same := []*v1.VolumeNodeAffinity{
		affinity(term(req("a", "In", "1", "2"), req("b", "Exists")), term(req("c", "In", "3"))),
		affinity(term(req("c", "In", "3")), term(req("b", "Exists"), req("a", "In", "2", "1", "1"))),
	}
	if a, b := FromNodeAffinity(same[0]).Key(), FromNodeAffinity(same[1]).Key(); a != b {
		t.Errorf("one condition, two keys:\n%s\n%s", a, b)
	}
	different := map[string]*v1.VolumeNodeAffinity{
		"none": nil, "no terms": affinity(), "field": affinity(builders.FieldTerm(req("a", "In", "1"))),
		"in": affinity(term(req("a", "In", "1"))), "not in": affinity(term(req("a", "NotIn", "1"))),
		"two values": affinity(term(req("a", "In", "1", "2"))), "value with quotes": affinity(term(req("a", "In", `1""2`))),
		"two terms": affinity(term(req("a", "In", "1")), term(req("a", "In", "2"))), "two requirements": affinity(term(req("a", "In", "1"), req("a", "In", "2"))),
	}
	seen := map[string]string{}
	for name, a := range different {
		key := FromNodeAffinity(a).Key()
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q share the key %s", name, other, key)
		}
		seen[key] = name
	}
}

func TestFromLabelSelector(t *testing.T) {
	t.Parallel()
	node := builders.MakeNode("n1").Hostname("n1").Zone("z1").Obj()
	tests := map[string]struct {
		selector *metav1.LabelSelector
		want     bool
		anchored bool
	}{
		"nil is nowhere":       {nil, false, true},
		"empty is everywhere":  {&metav1.LabelSelector{}, true, false},
		"matching label":       {metav1.AddLabelToSelector(&metav1.LabelSelector{}, v1.LabelTopologyZone, "z1"), true, true},
		"other value":          {metav1.AddLabelToSelector(&metav1.LabelSelector{}, v1.LabelTopologyZone, "z2"), false, true},
		"In":                   {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: "In", Values: []string{"z2", "z1"}}}}, true, true},
		"NotIn":                {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: "NotIn", Values: []string{"z2"}}}}, true, false},
		"unknown operator":     {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like", Values: []string{"z2"}}}}, false, true},
		"several requirements": {&metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: "z1", v1.LabelHostname: "n2"}}, false, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := FromLabelSelector(tc.selector)
			if got := c.Admits(node); got != tc.want || c.unanchored == tc.anchored {
				t.Errorf("Admits is %t, anchored %t; want %t, %t", got, !c.unanchored, tc.want, tc.anchored)
			}
		})
	}
}

func TestFromAllowedTopologies(t *testing.T) {
	t.Parallel()
	node := builders.MakeNode("n1").Zone("z1").Label("rack", "r1").Obj()
	exp := func(key string, values ...string) v1.TopologySelectorLabelRequirement {
		return v1.TopologySelectorLabelRequirement{Key: key, Values: values}
	}
	term := func(exps ...v1.TopologySelectorLabelRequirement) v1.TopologySelectorTerm {
		return v1.TopologySelectorTerm{MatchLabelExpressions: exps}
	}
	tests := map[string]struct {
		terms []v1.TopologySelectorTerm
		want  bool
	}{
		"none allows all":           {nil, true},
		"a value":                   {[]v1.TopologySelectorTerm{term(exp(v1.LabelTopologyZone, "z0", "z1"))}, true},
		"expressions are ANDed":     {[]v1.TopologySelectorTerm{term(exp(v1.LabelTopologyZone, "z1"), exp("rack", "r2"))}, false},
		"terms are ORed":            {[]v1.TopologySelectorTerm{term(exp("rack", "r2")), term(exp(v1.LabelTopologyZone, "z1"))}, true},
		"an empty term allows none": {[]v1.TopologySelectorTerm{term()}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := FromAllowedTopologies(tc.terms).Admits(node); got != tc.want {
				t.Errorf("Admits is %t, want %t", got, tc.want)
			}
		})
	}
}
