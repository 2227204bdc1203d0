// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// defaults are the arguments of a profile without arguments.
func defaults() *VolumeTopologyArgs {
	return &VolumeTopologyArgs{
		BindTimeoutSeconds: new(int64(600)),
		BindingMode:        BindingModeDirect,
		Scoring: VolumeScoring{
			Strategy:            ScoringBestFit,
			StaticWeightPercent: new(int32(50)),
		},
	}
}

func defaultsBut(change func(*VolumeTopologyArgs)) *VolumeTopologyArgs {
	args := defaults()
	change(args)
	return args
}

func unknown(raw string) *runtime.Unknown {
	return &runtime.Unknown{Raw: []byte(raw), ContentType: runtime.ContentTypeJSON}
}

func TestDecodeArgs(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		obj  runtime.Object
		want *VolumeTopologyArgs
	}{
		"no arguments: all defaults": {
			obj:  nil,
			want: defaults(),
		},
		"a scheduler without our scheme and no content: all defaults": {
			obj:  &runtime.Unknown{},
			want: defaults(),
		},
		"a scheduler without our scheme, type left out: defaulted": {
			obj: unknown(`{"bindingMode":"PVController"}`),
			want: defaultsBut(func(a *VolumeTopologyArgs) {
				a.BindingMode = BindingModePVController
			}),
		},
		"a scheduler without our scheme, type given": {
			obj: unknown(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"VolumeTopologyArgs","bindTimeoutSeconds":1}`),
			want: defaultsBut(func(a *VolumeTopologyArgs) {
				a.BindTimeoutSeconds = new(int64(1))
			}),
		},
		"YAML": {
			obj: &runtime.Unknown{Raw: []byte("scoring:\n  strategy: MostAllocated\n"), ContentType: runtime.ContentTypeYAML},
			want: defaultsBut(func(a *VolumeTopologyArgs) {
				a.Scoring.Strategy = ScoringMostAllocated
			}),
		},
		"zero static weight is a choice, not a missing value": {
			obj: unknown(`{"scoring":{"staticWeightPercent":0}}`),
			want: defaultsBut(func(a *VolumeTopologyArgs) {
				a.Scoring.StaticWeightPercent = new(int32(0))
			}),
		},
		"a shape": {
			obj: unknown(`{"scoring":{"strategy":"RequestedToCapacityRatio","shape":[{"utilization":0,"score":10},{"utilization":100,"score":0}]}}`),
			want: defaultsBut(func(a *VolumeTopologyArgs) {
				a.Scoring.Strategy = ScoringRequestedToCapacityRatio
				a.Scoring.Shape = []UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
			}),
		},
		"a scheduler with our scheme: defaulted": {
			obj: &VolumeTopologyArgs{BindTimeoutSeconds: new(int64(3600))},
			want: defaultsBut(func(a *VolumeTopologyArgs) {
				a.BindTimeoutSeconds = new(int64(3600))
			}),
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var before runtime.Object
			if test.obj != nil {
				before = test.obj.DeepCopyObject()
			}
			got, err := DecodeArgs(test.obj)
			if err != nil {
				t.Fatalf("DecodeArgs: %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.obj); diff != "" {
				t.Errorf("DecodeArgs changed its input (-before +after):\n%s", diff)
			}
		})
	}
}

func TestDecodeArgsCopies(t *testing.T) {
	t.Parallel()

	shared := defaults()
	got, err := DecodeArgs(shared)
	if err != nil {
		t.Fatalf("DecodeArgs: %v", err)
	}
	*got.BindTimeoutSeconds = 1
	if *shared.BindTimeoutSeconds != 600 {
		t.Error("writing to the answer of DecodeArgs changed the profile's own arguments")
	}
}

func TestDecodeArgsRefuses(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		obj  runtime.Object
		want []string
	}{
		"misspelt field": {
			obj:  unknown(`{"bindTimeoutSecond":5}`),
			want: []string{"plugin VolumeTopology", `unknown field "bindTimeoutSecond"`},
		},
		"misspelt nested field": {
			obj:  unknown(`{"scoring":{"weight":5}}`),
			want: []string{`unknown field "scoring.weight"`},
		},
		"field given twice": {
			obj:  unknown(`{"bindingMode":"Direct","bindingMode":"PVController"}`),
			want: []string{`duplicate field "bindingMode"`},
		},
		"wrong case": {
			obj:  unknown(`{"BindingMode":"Direct"}`),
			want: []string{`unknown field "BindingMode"`},
		},
		"wrong JSON type": {
			obj:  unknown(`{"bindTimeoutSeconds":"10m"}`),
			want: []string{"bindTimeoutSeconds"},
		},
		"another kind": {
			obj:  unknown(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"VolumeBindingArgs"}`),
			want: []string{`no kind "VolumeBindingArgs" is registered`},
		},
		"another version": {
			obj:  unknown(`{"apiVersion":"kubescheduler.config.k8s.io/v1beta3","kind":"VolumeTopologyArgs"}`),
			want: []string{"VolumeTopologyArgs", "kubescheduler.config.k8s.io/v1beta3"},
		},
		"decoded but invalid: field path and bounds": {
			obj:  unknown(`{"bindTimeoutSeconds":0,"scoring":{"staticWeightPercent":101}}`),
			want: []string{"bindTimeoutSeconds: Invalid value: 0", "must be 1 to 3600", "scoring.staticWeightPercent: Invalid value: 101"},
		},
		"another type of object": {
			obj:  &metav1.Status{},
			want: []string{"got *v1.Status, want *v1.VolumeTopologyArgs"},
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := DecodeArgs(test.obj)
			if err == nil {
				t.Fatalf("DecodeArgs accepted it as %+v", got)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
		})
	}
}
