// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package score

import (
	"math"
	"testing"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

func static(asked, given int64) volumecache.Usage {
	return volumecache.Usage{StaticAsked: asked, StaticGiven: given}
}

func provisioned(asked, of int64) volumecache.Usage {
	return volumecache.Usage{ProvisionedAsked: asked, ProvisionedOf: of}
}

func mixed(asked, given, made, of int64) volumecache.Usage {
	return volumecache.Usage{StaticAsked: asked, StaticGiven: given, ProvisionedAsked: made, ProvisionedOf: of}
}

func TestScorer(t *testing.T) {
	t.Parallel()
	bestFit := configv1.VolumeScoring{Strategy: configv1.ScoringBestFit, StaticWeightPercent: new(int32(50))}
	least := configv1.VolumeScoring{Strategy: configv1.ScoringLeastAllocated, StaticWeightPercent: new(int32(50))}
	most := configv1.VolumeScoring{Strategy: configv1.ScoringMostAllocated, StaticWeightPercent: new(int32(50))}
	weighing := func(percent int32) configv1.VolumeScoring {
		return configv1.VolumeScoring{Strategy: configv1.ScoringMostAllocated, StaticWeightPercent: new(percent)}
	}
	shaped := func(points ...configv1.UtilizationShapePoint) configv1.VolumeScoring {
		return configv1.VolumeScoring{Strategy: configv1.ScoringRequestedToCapacityRatio, StaticWeightPercent: new(int32(0)), Shape: points}
	}
	tests := map[string]struct {
		scoring configv1.VolumeScoring
		usage   []volumecache.Usage
		want    int64
	}{
		"best fit, existing: the fuller the better":            {bestFit, []volumecache.Usage{static(8, 10)}, 80},
		"best fit, existing: exact":                            {bestFit, []volumecache.Usage{static(10, 10)}, 100},
		"best fit, existing: nothing requested":                {bestFit, []volumecache.Usage{static(0, 10)}, 0},
		"best fit, provisioned: the emptier the better":        {bestFit, []volumecache.Usage{provisioned(8, 10)}, 20},
		"best fit, both: the mean":                             {bestFit, []volumecache.Usage{mixed(8, 10, 4, 10)}, 70},
		"best fit, classes: the mean":                          {bestFit, []volumecache.Usage{static(10, 10), static(5, 10), provisioned(10, 10)}, 50},
		"least allocated, existing":                            {least, []volumecache.Usage{static(8, 10)}, 20},
		"least allocated, provisioned":                         {least, []volumecache.Usage{provisioned(8, 10)}, 20},
		"most allocated, existing":                             {most, []volumecache.Usage{static(8, 10)}, 80},
		"most allocated, provisioned":                          {most, []volumecache.Usage{provisioned(8, 10)}, 80},
		"weight 0: only provisioning counts":                   {weighing(0), []volumecache.Usage{mixed(10, 10, 4, 10)}, 40},
		"weight 25":                                            {weighing(25), []volumecache.Usage{mixed(10, 10, 4, 10)}, 55},
		"weight 100: only existing volumes count":              {weighing(100), []volumecache.Usage{mixed(10, 10, 4, 10)}, 100},
		"weight 0, but nothing is provisioned":                 {weighing(0), []volumecache.Usage{static(7, 10)}, 70},
		"weight 100, but nothing exists":                       {weighing(100), []volumecache.Usage{provisioned(7, 10)}, 70},
		"unknown: neither best nor worst":                      {bestFit, []volumecache.Usage{{}}, 50},
		"no class":                                             {bestFit, nil, 50},
		"one class known, one not":                             {bestFit, []volumecache.Usage{static(10, 10), {}}, 75},
		"rounded":                                              {bestFit, []volumecache.Usage{static(2, 3)}, 67},
		"more requested than available counts as full":         {most, []volumecache.Usage{provisioned(30, 10)}, 100},
		"more requested than available counts as full, least":  {least, []volumecache.Usage{provisioned(30, 10)}, 0},
		"the largest number of bytes":                          {bestFit, []volumecache.Usage{static(math.MaxInt64, math.MaxInt64)}, 100},
		"the largest number of bytes, for one byte":            {bestFit, []volumecache.Usage{static(1, math.MaxInt64)}, 0},
		"the largest number of bytes, provisioned from a byte": {bestFit, []volumecache.Usage{provisioned(math.MaxInt64, 1)}, 0},
		"shape: at a point":                                    {shaped(point(0, 0), point(50, 10), point(100, 4)), []volumecache.Usage{static(5, 10)}, 100},
		"shape: between points, rising":                        {shaped(point(0, 0), point(50, 10), point(100, 4)), []volumecache.Usage{static(1, 4)}, 50},
		"shape: between points, falling":                       {shaped(point(0, 0), point(50, 10), point(100, 4)), []volumecache.Usage{provisioned(3, 4)}, 70},
		"shape: before the first point":                        {shaped(point(20, 3), point(80, 9)), []volumecache.Usage{static(1, 10)}, 30},
		"shape: after the last point":                          {shaped(point(20, 3), point(80, 9)), []volumecache.Usage{static(9, 10)}, 90},
		"shape: one point is a constant":                       {shaped(point(40, 6)), []volumecache.Usage{static(9, 10), static(1, 10)}, 60},
		"shape: at both ends":                                  {shaped(point(0, 10), point(100, 0)), []volumecache.Usage{static(0, 10), static(10, 10)}, 50},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := New(tc.scoring).Of(tc.usage); got != tc.want {
				t.Errorf("score %d, want %d", got, tc.want)
			}
		})
	}
}

func point(utilization, score int32) configv1.UtilizationShapePoint {
	return configv1.UtilizationShapePoint{Utilization: utilization, Score: score}
}

// TestScoresAreOnTheScale: all scores are between 0 and Max.
func TestScoresAreOnTheScale(t *testing.T) {
	t.Parallel()
	amounts := []int64{0, 1, 2, 1 << 30, math.MaxInt64 - 1, math.MaxInt64}
	for _, scoring := range []configv1.VolumeScoring{
		{Strategy: configv1.ScoringBestFit, StaticWeightPercent: new(int32(33))},
		{Strategy: configv1.ScoringLeastAllocated, StaticWeightPercent: new(int32(100))},
		{Strategy: configv1.ScoringMostAllocated, StaticWeightPercent: new(int32(0))},
		{Strategy: configv1.ScoringRequestedToCapacityRatio, StaticWeightPercent: new(int32(0)), Shape: []configv1.UtilizationShapePoint{point(0, 10), point(1, 0), point(100, 10)}},
	} {
		s := New(scoring)
		for _, a := range amounts {
			for _, b := range amounts {
				for _, c := range amounts {
					if got := s.Of([]volumecache.Usage{mixed(a, b, c, a), provisioned(b, c)}); got < 0 || got > Max {
						t.Errorf("%s: score %d of %d, %d and %d bytes", scoring.Strategy, got, a, b, c)
					}
				}
			}
		}
	}
}
