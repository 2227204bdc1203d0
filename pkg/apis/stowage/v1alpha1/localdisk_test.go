// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var installedDisks = installed("stowage.dev_localdisks.yaml")

// localDisk is a disk in which every field has a value.
func localDisk() *LocalDisk {
	then, size := metav1.Unix(1760000000, 0), resource.MustParse("10Gi")
	return &LocalDisk{
		TypeMeta:   metav1.TypeMeta{APIVersion: "stowage.dev/v1alpha1", Kind: "LocalDisk"},
		ObjectMeta: metav1.ObjectMeta{Name: "node1.0a"},
		Spec:       LocalDiskSpec{NodeName: "node1"},
		Status: LocalDiskStatus{
			Identity: "wwn:naa.5000c500a1b2c3d4", Device: "/dev/sdb", Bytes: 10<<30 + 1, Size: &size, Transport: "sas", Rotational: true,
			Model: "ACME Disk", Serial: "S1", State: LocalDiskAssigned, Reason: "IOError", Message: "bad sector", Class: "fast", Path: "/mnt/fast/a",
			Health: LocalDiskFailing, Since: &then,
		},
	}
}

// TestDiskSchemaKnowsEveryField: the API server drops no field of the Go types.
func TestDiskSchemaKnowsEveryField(t *testing.T) {
	t.Parallel()
	s, d := schemaFrom(t, installedDisks), localDisk()
	if empty := append(zeros("spec", reflect.ValueOf(d.Spec)), zeros("status", reflect.ValueOf(d.Status))...); len(empty) > 0 {
		t.Fatalf("the example leaves out %v", empty)
	}
	if errs := s.validate(t, unstructured(t, d), nil); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	object := unstructured(t, d)
	pruning.Prune(object, s.structural, true)
	if diff := cmp.Diff(unstructured(t, d), object); diff != "" {
		t.Errorf("the schema does not know: %s", diff)
	}
}

func TestDiskSchema(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*LocalDisk)
		old    bool // a change of localDisk
		want   []string
	}{
		"the example":            {change: func(*LocalDisk) {}},
		"without status":         {change: func(d *LocalDisk) { d.Status = LocalDiskStatus{} }},
		"a change of the status": {change: func(d *LocalDisk) { d.Status.State = LocalDiskMissing }, old: true},
		"the last name":          {change: func(d *LocalDisk) { d.Name = "node1.ff" }},
		"the longest name": {change: func(d *LocalDisk) {
			d.Spec.NodeName = strings.Repeat("a", 250)
			d.Name = LocalDiskName(d.Spec.NodeName, 0)
		}},
		"a number that is long":   {change: func(d *LocalDisk) { d.Name = "node1.100" }, want: []string{"<nil>"}},
		"a number that is short":  {change: func(d *LocalDisk) { d.Name = "node1.1" }, want: []string{"<nil>"}},
		"no number":               {change: func(d *LocalDisk) { d.Name = "node1.zz" }, want: []string{"<nil>"}},
		"a node's with more name": {change: func(d *LocalDisk) { d.Name = "node1.b.00" }, want: []string{"<nil>"}},
		"another node's":          {change: func(d *LocalDisk) { d.Name = "node2.00" }, want: []string{"<nil>"}},
		"another node, later":     {change: func(d *LocalDisk) { d.Spec.NodeName, d.Name = "node2", "node2.0a" }, old: true, want: []string{"spec.nodeName"}},
		"no node":                 {change: func(d *LocalDisk) { d.Spec.NodeName = "" }, want: []string{"<nil>", "spec.nodeName"}},
		"an unknown state":        {change: func(d *LocalDisk) { d.Status.State = "Odd" }, want: []string{"status.state"}},
		"an unknown health":       {change: func(d *LocalDisk) { d.Status.Health = "Odd" }, want: []string{"status.health"}},
		"a negative size":         {change: func(d *LocalDisk) { d.Status.Bytes = -1 }, want: []string{"status.bytes"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := localDisk()
			tc.change(d)
			var old any
			if tc.old {
				old = unstructured(t, localDisk())
			}
			if diff := cmp.Diff(tc.want, fields(schemaFrom(t, installedDisks).validate(t, unstructured(t, d), old))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLocalDiskNames(t *testing.T) {
	t.Parallel()
	for slot := range MaxLocalDisks {
		d := &LocalDisk{ObjectMeta: metav1.ObjectMeta{Name: LocalDiskName("a.b", slot)}, Spec: LocalDiskSpec{NodeName: "a.b"}}
		if got, ok := d.Slot(); !ok || got != slot {
			t.Errorf("the slot of %s is %d, %v", d.Name, got, ok)
		}
	}
	for _, name := range []string{"a.b", "a.b.0", "a.b.000", "a.b.0A", "a.b.zz", "a.b.+1", "a.00", "a.b.c.00"} {
		d := &LocalDisk{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: LocalDiskSpec{NodeName: "a.b"}}
		if slot, ok := d.Slot(); ok {
			t.Errorf("the slot of %s is %d", name, slot)
		}
	}
	if name := LocalDiskName(strings.Repeat("a", 251), 0); name != "" {
		t.Errorf("a name that is too long for an object: %s", name)
	}
}

// TestFitLocalDisk: whatever a disk reports, the schema accepts it.
func TestFitLocalDisk(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\xff", 10000)
	d := localDisk()
	s := &d.Status
	s.Identity, s.Device, s.Transport, s.Model, s.Serial, s.Reason, s.Message, s.Class, s.Path, s.Bytes = long, long, long, long, long, long, long, long, long, -1
	d.Status = FitLocalDisk(d.Status)
	if errs := schemaFrom(t, installedDisks).validate(t, unstructured(t, d), nil); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}
