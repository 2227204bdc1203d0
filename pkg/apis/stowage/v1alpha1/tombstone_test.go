// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var installedTombstones = installed("stowage.dev_localdisktombstones.yaml")

// tombstone is a tombstone in which every field has a value.
func tombstone() *LocalDiskTombstone {
	then := metav1.Unix(1760000000, 0)
	return &LocalDiskTombstone{
		TypeMeta:   metav1.TypeMeta{APIVersion: "stowage.dev/v1alpha1", Kind: "LocalDiskTombstone"},
		ObjectMeta: metav1.ObjectMeta{Name: TombstoneName("node1", "wwn:naa.5000c500a1b2c3d4")},
		Spec: LocalDiskTombstoneSpec{NodeName: "node1", Tombstone: Tombstone{
			Identity: "wwn:naa.5000c500a1b2c3d4", Class: "fast", Name: "sda", Volume: "local-pv-1", VolumeUID: "8f3", Generation: 1, State: TombstonePublished, Since: &then, Released: &then,
		}},
	}
}

// TestTombstoneSchemaKnowsEveryField: the API server drops no field of the Go types.
func TestTombstoneSchemaKnowsEveryField(t *testing.T) {
	t.Parallel()
	s, stone := schemaFrom(t, installedTombstones), tombstone()
	if empty := zeros("spec", reflect.ValueOf(stone.Spec)); len(empty) > 0 {
		t.Fatalf("the example leaves out %v", empty)
	}
	object := unstructured(t, stone)
	pruning.Prune(object, s.structural, true)
	if diff := cmp.Diff(unstructured(t, stone), object); diff != "" {
		t.Errorf("the schema does not know: %s", diff)
	}
}

func TestTombstoneSchema(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*LocalDiskTombstoneSpec)
		old    bool // a change of tombstone
		want   []string
	}{
		"the example": {change: func(*LocalDiskTombstoneSpec) {}},
		"written by hand": {change: func(s *LocalDiskTombstoneSpec) {
			s.Tombstone = Tombstone{Identity: s.Identity, State: TombstoneRetained}
		}},
		"of another volume of the disk, later": {change: func(s *LocalDiskTombstoneSpec) { s.VolumeUID, s.State = "9a1", TombstoneRetained }, old: true},
		"of another disk, later":               {change: func(s *LocalDiskTombstoneSpec) { s.Identity = "wwn:2" }, old: true, want: []string{"spec"}},
		"of another node, later":               {change: func(s *LocalDiskTombstoneSpec) { s.NodeName = "node2" }, old: true, want: []string{"spec"}},
		"of no node":                           {change: func(s *LocalDiskTombstoneSpec) { s.NodeName = "" }, want: []string{"spec.nodeName"}},
		"of no disk":                           {change: func(s *LocalDiskTombstoneSpec) { s.Identity = "" }, want: []string{"spec.identity"}},
		"with a long identity":                 {change: func(s *LocalDiskTombstoneSpec) { s.Identity = strings.Repeat("a", 8193) }, want: []string{"spec.identity"}},
		"clean":                                {change: func(s *LocalDiskTombstoneSpec) { s.State = "Clean" }, want: []string{"spec.state"}},
		"of a negative generation":             {change: func(s *LocalDiskTombstoneSpec) { s.Generation = -1 }, want: []string{"spec.generation"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stone := tombstone()
			tc.change(&stone.Spec)
			var old any
			if tc.old {
				old = unstructured(t, tombstone())
			}
			if diff := cmp.Diff(tc.want, fields(schemaFrom(t, installedTombstones).validate(t, unstructured(t, stone), old))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTombstoneNames: each disk of each node has its own name, which an object may have.
func TestTombstoneNames(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, disk := range [][2]string{{"a", "wwn:1"}, {"a", "wwn:2"}, {"b", "wwn:1"}, {"aw", "wn:1"}, {strings.Repeat("a", 253), strings.Repeat("\xff", 8192)}} {
		name := TombstoneName(disk[0], disk[1])
		if problems := validation.NameIsDNSSubdomain(name, false); len(problems) > 0 || names[name] != "" {
			t.Errorf("%s of disk %q, also of %q: %v", name, disk, names[name], problems)
		}
		names[name] = disk[1]
	}
}
