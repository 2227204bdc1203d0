// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validArgs() *VolumeTopologyArgs {
	return &VolumeTopologyArgs{
		BindTimeoutSeconds: new(int64(600)),
		BindingMode:        BindingModeDirect,
		Scoring: VolumeScoring{
			Strategy:            ScoringBestFit,
			StaticWeightPercent: new(int32(50)),
		},
	}
}

func withShape(shape ...UtilizationShapePoint) func(*VolumeTopologyArgs) {
	return func(a *VolumeTopologyArgs) {
		a.Scoring.Strategy = ScoringRequestedToCapacityRatio
		a.Scoring.Shape = shape
	}
}

func TestValidateVolumeTopologyArgs(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		change func(*VolumeTopologyArgs)
		want   []string
	}{
		"the defaults": {
			change: func(*VolumeTopologyArgs) {},
		},
		"shortest timeout": {
			change: func(a *VolumeTopologyArgs) { a.BindTimeoutSeconds = new(int64(1)) },
		},
		"longest timeout": {
			change: func(a *VolumeTopologyArgs) { a.BindTimeoutSeconds = new(int64(3600)) },
		},
		"zero timeout: refused with the reason": {
			change: func(a *VolumeTopologyArgs) { a.BindTimeoutSeconds = new(int64(0)) },
			want:   []string{`args.bindTimeoutSeconds: Invalid value: 0: must be 1 to 3600: a bind that may not wait can never finish; leave the field out for the default`},
		},
		"negative timeout": {
			change: func(a *VolumeTopologyArgs) { a.BindTimeoutSeconds = new(int64(-1)) },
			want:   []string{`args.bindTimeoutSeconds: Invalid value: -1: must be 1 to 3600`},
		},
		"timeout over an hour": {
			change: func(a *VolumeTopologyArgs) { a.BindTimeoutSeconds = new(int64(3601)) },
			want:   []string{`args.bindTimeoutSeconds: Invalid value: 3601: must be 1 to 3600`},
		},
		"the other binding mode": {
			change: func(a *VolumeTopologyArgs) { a.BindingMode = BindingModePVController },
		},
		"unknown binding mode": {
			change: func(a *VolumeTopologyArgs) { a.BindingMode = "direct" },
			want:   []string{`args.bindingMode: Unsupported value: "direct": supported values: "Direct", "PVController"`},
		},
		"unknown strategy": {
			change: func(a *VolumeTopologyArgs) { a.Scoring.Strategy = "WorstFit" },
			want:   []string{`args.scoring.strategy: Unsupported value: "WorstFit": supported values: "BestFit", "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`},
		},
		"unknown strategy with a shape: one error, the shape may be right": {
			change: func(a *VolumeTopologyArgs) {
				withShape(UtilizationShapePoint{Utilization: 0, Score: 10})(a)
				a.Scoring.Strategy = "Ratio"
			},
			want: []string{`args.scoring.strategy: Unsupported value: "Ratio": supported values: "BestFit", "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`},
		},
		"static weight none": {
			change: func(a *VolumeTopologyArgs) { a.Scoring.StaticWeightPercent = new(int32(0)) },
		},
		"static weight all": {
			change: func(a *VolumeTopologyArgs) { a.Scoring.StaticWeightPercent = new(int32(100)) },
		},
		"static weight below": {
			change: func(a *VolumeTopologyArgs) { a.Scoring.StaticWeightPercent = new(int32(-1)) },
			want:   []string{`args.scoring.staticWeightPercent: Invalid value: -1: must be 0 to 100`},
		},
		"static weight above": {
			change: func(a *VolumeTopologyArgs) { a.Scoring.StaticWeightPercent = new(int32(101)) },
			want:   []string{`args.scoring.staticWeightPercent: Invalid value: 101: must be 0 to 100`},
		},
		"a shape of one point": {
			change: withShape(UtilizationShapePoint{Utilization: 50, Score: 5}),
		},
		"a shape over the whole range": {
			change: withShape(UtilizationShapePoint{Utilization: 0, Score: 10}, UtilizationShapePoint{Utilization: 100, Score: 0}),
		},
		"shape missing where it is needed": {
			change: withShape(),
			want:   []string{`args.scoring.shape: Required value: strategy RequestedToCapacityRatio needs at least one point`},
		},
		"shape given where nothing reads it": {
			change: func(a *VolumeTopologyArgs) {
				a.Scoring.Shape = []UtilizationShapePoint{{Utilization: 0, Score: 0}}
			},
			want: []string{`args.scoring.shape: Forbidden: only strategy RequestedToCapacityRatio uses it`},
		},
		"shape with equal utilizations": {
			change: withShape(UtilizationShapePoint{Utilization: 10, Score: 1}, UtilizationShapePoint{Utilization: 10, Score: 2}),
			want:   []string{`args.scoring.shape[1].utilization: Invalid value: 10: must be greater than 10, the utilization of the point before`},
		},
		"shape out of range": {
			change: withShape(UtilizationShapePoint{Utilization: -1, Score: -1}, UtilizationShapePoint{Utilization: 101, Score: 11}),
			want: []string{
				`args.scoring.shape[0].utilization: Invalid value: -1: must be 0 to 100`,
				`args.scoring.shape[0].score: Invalid value: -1: must be 0 to 10`,
				`args.scoring.shape[1].utilization: Invalid value: 101: must be 0 to 100`,
				`args.scoring.shape[1].score: Invalid value: 11: must be 0 to 10`,
			},
		},
		"several faults: all are reported": {
			change: func(a *VolumeTopologyArgs) {
				a.BindTimeoutSeconds = new(int64(-5))
				a.BindingMode = ""
			},
			want: []string{
				`args.bindTimeoutSeconds: Invalid value: -5: must be 1 to 3600`,
				`args.bindingMode: Unsupported value: "": supported values: "Direct", "PVController"`,
			},
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := validArgs()
			test.change(args)
			before := args.DeepCopy()

			got := messages(ValidateVolumeTopologyArgs(field.NewPath("args"), args))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, args); diff != "" {
				t.Errorf("validation changed its input (-before +after):\n%s", diff)
			}
		})
	}
}

func TestNilPathNamesFieldsFromTheTop(t *testing.T) {
	t.Parallel()
	args := validArgs()
	args.Scoring.StaticWeightPercent = new(int32(200))
	got := messages(ValidateVolumeTopologyArgs(nil, args))
	want := []string{`scoring.staticWeightPercent: Invalid value: 200: must be 0 to 100`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// messages are the texts of the errors that err aggregates.
func messages(err error) []string {
	var aggregate utilerrors.Aggregate
	if !errors.As(err, &aggregate) {
		return nil
	}
	var all []string
	for _, e := range aggregate.Errors() {
		all = append(all, e.Error())
	}
	return all
}
