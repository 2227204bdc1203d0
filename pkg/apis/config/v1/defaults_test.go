// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

func TestSetDefaults(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ in, want VolumeTopologyArgs }{
		"nothing given": {
			want: VolumeTopologyArgs{
				BindTimeoutSeconds: ptr.To[int64](600),
				BindingMode:        BindingModeDirect,
				Scoring:            VolumeScoring{Strategy: ScoringBestFit, StaticWeightPercent: ptr.To[int32](50)},
			},
		},
		"what is given stays, zero included: validation judges it": {
			in: VolumeTopologyArgs{
				BindTimeoutSeconds: ptr.To[int64](0),
				BindingMode:        BindingModePVController,
				Scoring:            VolumeScoring{Strategy: ScoringLeastAllocated, StaticWeightPercent: ptr.To[int32](0)},
			},
			want: VolumeTopologyArgs{
				BindTimeoutSeconds: ptr.To[int64](0),
				BindingMode:        BindingModePVController,
				Scoring:            VolumeScoring{Strategy: ScoringLeastAllocated, StaticWeightPercent: ptr.To[int32](0)},
			},
		},
		"a missing shape stays missing: there is no sensible default": {
			in: VolumeTopologyArgs{Scoring: VolumeScoring{Strategy: ScoringRequestedToCapacityRatio}},
			want: VolumeTopologyArgs{
				BindTimeoutSeconds: ptr.To[int64](600),
				BindingMode:        BindingModeDirect,
				Scoring:            VolumeScoring{Strategy: ScoringRequestedToCapacityRatio, StaticWeightPercent: ptr.To[int32](50)},
			},
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := test.in
			newArgsScheme().Default(&got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("defaulted (-want +got):\n%s", diff)
			}
		})
	}
}
