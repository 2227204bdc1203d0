// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/render"
)

// TestVariablesAreDescribed: in each context, each variable has one description, and its type is the
// one described. No description is of another variable.
func TestVariablesAreDescribed(t *testing.T) {
	t.Parallel()
	claim, class := object(t, claimText), object(t, classText)
	volume, node := object(t, volumeText), object(t, nodeText)
	dynamic := render.Objects{Claim: claim, Class: class}
	staged := render.Objects{Claim: claim, Volume: volume, Node: node}
	described := map[render.Context]map[string]string{}
	for _, v := range render.DescribeVariables() {
		if v.Meaning == "" || len(v.Contexts) == 0 {
			t.Errorf("%s: contexts %q, meaning %q", v.Name, v.Contexts, v.Meaning)
		}
		for _, c := range v.Contexts {
			if described[c] == nil {
				described[c] = map[string]string{}
			}
			if described[c][v.Name] != "" {
				t.Errorf("%s has two descriptions for %s", v.Name, c)
			}
			described[c][v.Name] = v.Type
		}
	}
	for c, of := range map[render.Context]struct {
		step    v1alpha1.PavStepName
		objects render.Objects
	}{
		render.OfValidation:       {v1alpha1.PavStepValidation, dynamic},
		render.OfStaticValidation: {v1alpha1.PavStepValidation, render.Objects{Volume: volume}},
		render.OfCreation:         {v1alpha1.PavStepCreation, dynamic},
		render.OfDeletion:         {v1alpha1.PavStepDeletion, dynamic},
		render.OfStaging:          {v1alpha1.PavStepStaging, staged},
		render.OfUnstaging:        {v1alpha1.PavStepUnstaging, staged},
	} {
		variables, err := render.Variables(of.step, of.objects)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(variables)), slices.Sorted(maps.Keys(described[c]))); diff != "" {
			t.Errorf("variables of %s (-code +descriptions):\n%s", c, diff)
		}
		for name, value := range variables {
			var types []string
			switch value.(type) {
			case string:
				types = []string{"text"}
			case bool:
				types = []string{"boolean"}
			case int64:
				types = []string{"integer, bytes", "integer, bytes, or none"}
			case []any:
				types = []string{"list of texts"}
			case map[string]any:
				types = []string{"dict", "dict of texts"}
			}
			if !slices.Contains(types, described[c][name]) {
				t.Errorf("%s of %s is a %T, and described as %q", name, c, value, described[c][name])
			}
		}
		delete(described, c)
	}
	capacity := intstr.FromString("{{ 1 if node is defined }}")
	if bytes, err := render.StorageCapacity(&v1alpha1.PavProvisionerSpec{StorageCapacity: &capacity}, node); err != nil || bytes != 1 {
		t.Errorf("storageCapacity with node: %d, %v", bytes, err)
	}
	if diff := cmp.Diff(map[render.Context]map[string]string{render.OfStorageCapacity: {"node": "dict"}}, described); diff != "" {
		t.Errorf("other descriptions (-want +got):\n%s", diff)
	}
}
