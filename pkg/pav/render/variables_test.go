// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/render"
)

const (
	claimText  = `{metadata: {name: data, namespace: shop, uid: u1}, spec: {volumeMode: Block, accessModes: [ReadOnlyMany], resources: {requests: {storage: 1.5Gi}, limits: {storage: 2G}}}}`
	classText  = `{metadata: {name: fast}, parameters: {a: b}}`
	volumeText = `{metadata: {name: pv1}, spec: {accessModes: [ReadWriteOnce, ReadOnlyMany], capacity: {storage: 1500m}, csi: {volumeHandle: h1, volumeAttributes: {c: d}}}}`
	nodeText   = `{metadata: {name: node1}}`
)

func TestVariables(t *testing.T) {
	t.Parallel()
	all := func(t *testing.T) render.Objects {
		return render.Objects{Claim: object(t, claimText), Class: object(t, classText), Volume: object(t, volumeText), Node: object(t, nodeText)}
	}
	dynamic := func(o render.Objects) map[string]any {
		return map[string]any{
			"requestedVolumeMode": "Block", "requestedAccessModes": []any{"ReadOnlyMany"},
			"requestedMinCapacity": int64(1610612736), "requestedMaxCapacity": int64(2_000_000_000),
			"params": map[string]any{"a": "b"}, "sc": o.Class, "pvc": o.Claim,
		}
	}
	staging := func(o render.Objects) map[string]any {
		return map[string]any{
			"volumeMode": "Filesystem", "accessModes": []any{"ReadOnlyMany"}, "capacity": int64(2), "readOnly": true,
			"params": map[string]any{"c": "d"}, "handle": "h1", "pvc": o.Claim, "pv": o.Volume, "node": o.Node,
		}
	}
	with := func(base map[string]any, key string, value any) map[string]any {
		base = maps.Clone(base)
		base[key] = value
		return base
	}
	tests := map[string]struct {
		step   v1alpha1.PavStepName
		change func(*render.Objects)
		want   func(render.Objects) map[string]any
	}{
		"validation of a dynamic volume": {
			v1alpha1.PavStepValidation, func(o *render.Objects) { o.Volume, o.Node = nil, nil }, dynamic,
		},
		"validation of a static volume": {
			v1alpha1.PavStepValidation, func(o *render.Objects) { o.Claim, o.Class, o.Node = nil, nil, nil },
			func(o render.Objects) map[string]any {
				return map[string]any{
					"requestedVolumeMode": "Filesystem", "requestedAccessModes": []any{"ReadWriteOnce", "ReadOnlyMany"},
					"requestedMinCapacity": int64(2), "requestedMaxCapacity": int64(2),
					"params": map[string]any{"c": "d"}, "handle": "h1", "pv": o.Volume,
				}
			},
		},
		"creation": {
			v1alpha1.PavStepCreation, func(o *render.Objects) { o.Volume, o.Node = nil, nil },
			func(o render.Objects) map[string]any { return with(dynamic(o), "defaultHandle", "pvc-u1") },
		},
		"deletion": {
			v1alpha1.PavStepDeletion, func(o *render.Objects) { o.Volume, o.Node = nil, nil },
			func(o render.Objects) map[string]any { return with(dynamic(o), "defaultHandle", "pvc-u1") },
		},
		"no limit, no parameters and the default mode": {
			v1alpha1.PavStepValidation, func(o *render.Objects) {
				o.Volume, o.Node = nil, nil
				o.Claim, o.Class = map[string]any{"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1"}}}}, map[string]any{}
			},
			func(o render.Objects) map[string]any {
				return map[string]any{
					"requestedVolumeMode": "Filesystem", "requestedAccessModes": []any{},
					"requestedMinCapacity": int64(1), "requestedMaxCapacity": nil, "params": map[string]any{}, "sc": o.Class, "pvc": o.Claim,
				}
			},
		},
		"staging":   {v1alpha1.PavStepStaging, func(o *render.Objects) { o.Class = nil }, staging},
		"unstaging": {v1alpha1.PavStepUnstaging, func(o *render.Objects) { o.Class = nil }, staging},
		"a claim that can write": {
			v1alpha1.PavStepStaging, func(o *render.Objects) {
				o.Class = nil
				o.Claim["spec"].(map[string]any)["accessModes"] = []any{"ReadOnlyMany", "ReadWriteOnce"}
			},
			func(o render.Objects) map[string]any {
				return with(with(staging(o), "readOnly", false), "accessModes", []any{"ReadOnlyMany", "ReadWriteOnce"})
			},
		},
		"a volume that is read only": {
			v1alpha1.PavStepStaging, func(o *render.Objects) {
				o.Class = nil
				o.Claim["spec"].(map[string]any)["accessModes"] = []any{"ReadWriteOnce"}
				o.Volume["spec"].(map[string]any)["csi"].(map[string]any)["readOnly"] = true
			},
			func(o render.Objects) map[string]any {
				return with(with(staging(o), "readOnly", true), "accessModes", []any{"ReadWriteOnce"})
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := all(t)
			tc.change(&objects)
			got, err := render.Variables(tc.step, objects)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want(objects), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVariablesErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		step                       v1alpha1.PavStepName
		claim, class, volume, node string
		want                       string
	}{
		"validation of nothing":        {step: v1alpha1.PavStepValidation, want: "claim: must be given for the step Validation"},
		"creation without class":       {step: v1alpha1.PavStepCreation, claim: claimText, want: "class: must be given for the step Creation"},
		"staging without node":         {step: v1alpha1.PavStepStaging, claim: claimText, volume: volumeText, want: "node: must be given for the step Staging"},
		"creation with a node":         {step: v1alpha1.PavStepCreation, claim: claimText, class: classText, node: nodeText, want: "node: must not be given for the step Creation, which has [claim class]"},
		"a static volume with a claim": {step: v1alpha1.PavStepValidation, claim: claimText, volume: volumeText, want: "claim: must not be given for the step Validation, which has [volume]"},
		"no request":                   {step: v1alpha1.PavStepValidation, claim: `{metadata: {name: a}}`, class: classText, want: "claim.spec.resources.requests.storage: must be set"},
		"a request of nothing":         {step: v1alpha1.PavStepValidation, claim: `{spec: {resources: {requests: {storage: "0"}}}}`, class: classText, want: "claim.spec.resources.requests.storage: must be more than 0"},
		"a huge request":               {step: v1alpha1.PavStepValidation, claim: `{spec: {resources: {requests: {storage: "1e999999999"}}}}`, class: classText, want: "claim.spec.resources.requests.storage: must be a quantity such as"},
		"a bad limit":                  {step: v1alpha1.PavStepValidation, claim: `{spec: {resources: {requests: {storage: "1"}, limits: {storage: "-1"}}}}`, class: classText, want: "claim.spec.resources.limits.storage: must be more than 0"},
		"a claim without UID":          {step: v1alpha1.PavStepCreation, claim: `{spec: {resources: {requests: {storage: "1"}}}}`, class: classText, want: "claim.metadata.uid: must be set"},
		"a volume of another kind":     {step: v1alpha1.PavStepValidation, volume: `{spec: {capacity: {storage: "1"}}}`, want: "volume.spec.csi.volumeHandle: must be set"},
		"a volume without capacity":    {step: v1alpha1.PavStepValidation, volume: `{spec: {csi: {volumeHandle: a}}}`, want: "volume.spec.capacity.storage: must be set"},
		"a claim of other types":       {step: v1alpha1.PavStepValidation, claim: `{spec: []}`, class: classText, want: "claim: "},
		"a class of other types":       {step: v1alpha1.PavStepValidation, claim: claimText, class: `{parameters: [a]}`, want: "class: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := func(text string) map[string]any {
				if text == "" {
					return nil
				}
				return object(t, text)
			}
			got, err := render.Variables(tc.step, render.Objects{Claim: read(tc.claim), Class: read(tc.class), Volume: read(tc.volume), Node: read(tc.node)})
			wantError(t, got, err, tc.want)
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const valid = `provisioningModes: [Dynamic], volumeCreation: {capacity: 1}`
	tests := map[string]struct {
		spec string
		want []string
	}{
		"valid":                         {spec: `{` + valid + `, volumeStaging: {podTemplate: {}}}`},
		"templates everywhere":          {spec: `{provisioningModes: [Dynamic, Static], volumeValidation: {volumeModes: ["{{ a }}"], accessModes: "{{ a }}", minCapacity: "{{ a }}"}, volumeCreation: "{{ a }}", volumeDeletion: {podTemplate: "{{ a }}"}, volumeStaging: {podTemplate: "{{ a }}"}, volumeUnstaging: {podTemplate: {metadata: "{{ a }}", spec: {activeDeadlineSeconds: "{{ a }}", containers: ["{{ a }}", {image: "{{ a }}", resources: {requests: {cpu: "{{ a }}"}}, ports: [{containerPort: "{{ a }}", protocol: "{{ a }}"}], livenessProbe: {httpGet: {port: "{{ a }}"}}}]}}}, storageCapacity: "{{ a }}", accessibility: SelectedNode}`},
		"errors of all steps":           {spec: `{` + valid + `, volumeValidation: {minCapacity: "{{"}, volumeStaging: {podTemplate: "{% if %}"}, volumeUnstaging: "{{ a b }}", storageCapacity: "{{ }}", accessibility: SelectedNode}`, want: []string{"spec.volumeValidation.minCapacity", "spec.volumeStaging.podTemplate", "spec.volumeUnstaging", "spec.storageCapacity"}},
		"two errors in a step":          {spec: `{` + valid + `, volumeStaging: {podTemplate: {metadata: {name: "{{ }}", namespace: "{% %}"}}}}`, want: []string{"spec.volumeStaging.podTemplate.metadata.name", "spec.volumeStaging.podTemplate.metadata.namespace"}},
		"constants beside templates":    {spec: `{` + valid + `, volumeStaging: {podTemplate: {metadata: {name: "{{ a }}"}, spec: {containers: [{name: "{{ a }}", imag: b}]}}}}`, want: []string{"spec.volumeStaging.podTemplate.spec.containers[0].imag"}},
		"an unknown key with template":  {spec: `{` + valid + `, volumeStaging: {podTemplate: {metadata: {nam: "{{ a }}"}}}}`, want: []string{"spec.volumeStaging.podTemplate.metadata.nam"}},
		"an unknown mode":               {spec: `{` + valid + `, volumeValidation: {volumeModes: ["{{ a }}", Odd]}, volumeStaging: "{{ a }}"}`, want: []string{"spec.volumeValidation.volumeModes[1]"}},
		"steps of other types":          {spec: `{provisioningModes: [Dynamic], volumeCreation: 5, volumeStaging: [a]}`, want: []string{"spec.volumeCreation", "spec.volumeStaging"}},
		"an unknown accessibility":      {spec: `{` + valid + `, volumeStaging: "{{ a }}", accessibility: Here}`, want: []string{"spec.accessibility"}},
		"capacity of a zone":            {spec: `{` + valid + `, volumeStaging: "{{ a }}", storageCapacity: 5, accessibility: {topologyKeys: [a]}}`, want: []string{"spec.storageCapacity"}},
		"capacity without a node":       {spec: `{` + valid + `, volumeStaging: "{{ a }}", storageCapacity: 5}`, want: []string{"spec.storageCapacity"}},
		"accessibility and other keys":  {spec: `{` + valid + `, volumeStaging: "{{ a }}", accessibility: {topologyKeys: [a], other: b}}`, want: []string{"spec.accessibility"}},
		"dynamic without creation":      {spec: `{provisioningModes: [Dynamic], volumeStaging: "{{ a }}"}`, want: []string{"spec.volumeCreation"}},
		"static with creation":          {spec: `{provisioningModes: [Static], volumeCreation: "{{ a }}", volumeDeletion: {}, volumeStaging: "{{ a }}"}`, want: []string{"spec.volumeCreation", "spec.volumeDeletion"}},
		"static":                        {spec: `{provisioningModes: [Static], volumeStaging: "{{ a }}", accessibility: SelectedNode, storageCapacity: 5}`},
		"a text that looks like a pod":  {spec: `{` + valid + `, volumeStaging: "a: b"}`, want: []string{"spec.volumeStaging"}},
		"creation of neither pod nor n": {spec: `{provisioningModes: [Dynamic], volumeCreation: {handle: "{{ a }}"}, volumeStaging: "{{ a }}"}`, want: []string{"spec.volumeCreation"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, err := range render.Check(specOf(t, tc.spec)) {
				got = append(got, err.Field)
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
