// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/render"
)

// TestStorageCapacity: a node has the bytes that the field or its template says, or none.
func TestStorageCapacity(t *testing.T) {
	t.Parallel()
	node := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"disk": "1Gi", "zero": "0", "negative": "-1Gi", "vast": "1e99"}}}
	for name, test := range map[string]struct {
		capacity intstr.IntOrString
		want     int64
		err      string
	}{
		"a number":            {capacity: intstr.FromInt32(5), want: 5},
		"0":                   {capacity: intstr.FromInt32(0)},
		"a quantity":          {capacity: intstr.FromString("2Ki"), want: 2048},
		"a template":          {capacity: intstr.FromString("{{ node.metadata.annotations.disk }}"), want: 1 << 30},
		"0 of the node":       {capacity: intstr.FromString("{{ node.metadata.annotations.zero }}")},
		"no text":             {capacity: intstr.FromString(" {{ node.metadata.annotations.none | default('') }}\n")},
		"YAML":                {capacity: intstr.FromString("{% set yaml = true %}{{ 1024 * 2 }}"), want: 2048},
		"YAML that is a list": {capacity: intstr.FromString("{% set yaml = true %}[1]"), err: "must be a quantity"},
		"an absent annotation": {
			capacity: intstr.FromString("{{ node.metadata.annotations.none }}"), err: "spec.storageCapacity: line 1",
		},
		"text":            {capacity: intstr.FromString("much"), err: "must be a quantity"},
		"less than 0":     {capacity: intstr.FromString("{{ node.metadata.annotations.negative }}"), err: "must be more than 0"},
		"more than int64": {capacity: intstr.FromString("{{ node.metadata.annotations.vast }}"), err: "must be more than 0 and at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := render.StorageCapacity(&v1alpha1.PavProvisionerSpec{StorageCapacity: &test.capacity}, node)
			if got != test.want || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %d, error %v; want %d, error %q", got, err, test.want, test.err)
			}
		})
	}
}
