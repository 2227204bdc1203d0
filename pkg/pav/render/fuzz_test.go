// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/render"
)

// FuzzStep: any JSON as a step, and any YAML that a template yields, is evaluated or refused with
// the path of a field, and what is evaluated can be written as JSON.
func FuzzStep(f *testing.F) {
	f.Add(`{"podTemplate":{"spec":{"containers":[{"name":"{{ text }}"}]}}}`, "a")
	f.Add(`"{% set yaml = true %}{{ text }}"`, "{podTemplate: {metadata: {labels: &a {b: c}, annotations: *a}}}")
	f.Add(`{"podTemplate":"{% set yaml = true %}{{ text }}"}`, "<<: {metadata: !!binary aGk=}\n? [a]\n: 0x1F")
	f.Add(`{"handle":"{{ text }}","capacity":"{{ text }}"}`, "1e99")
	f.Fuzz(func(t *testing.T, step, text string) {
		if !json.Valid([]byte(step)) {
			t.Skip()
		}
		spec := &v1alpha1.PavProvisionerSpec{
			VolumeCreation: &v1alpha1.VolumeCreation{Raw: []byte(step)},
			VolumeStaging:  v1alpha1.VolumeStaging{Raw: []byte(step)},
		}
		render.Check(spec)
		for _, name := range []string{"volumeCreation", "volumeStaging"} {
			result, err := evaluations[name](render.Request{Spec: spec, Variables: map[string]any{"text": text}})
			if err == nil {
				_, err = json.Marshal(result)
			} else if at, ok := errors.AsType[*render.Error](err); ok && at.Field != "" && at.Message != "" {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// FuzzParseCapacity: what is accepted is positive, and is read again from what it prints.
func FuzzParseCapacity(f *testing.F) {
	for _, text := range []string{"1Gi", "0", "1e99", "1500m", "+.5E", "9223372036854775807", "9223372036854775808"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quantity, err := render.ParseCapacity(text)
		if err != nil {
			return
		}
		if quantity.Value() < 1 {
			t.Errorf("%q has %d bytes", text, quantity.Value())
		}
		again, err := resource.ParseQuantity(quantity.String())
		if err != nil || again.Cmp(quantity) != 0 {
			t.Errorf("%q is %s, which is %s: %v", text, &quantity, &again, err)
		}
	})
}
