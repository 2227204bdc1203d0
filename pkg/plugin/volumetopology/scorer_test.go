// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/apis/config"
	"stowage.dev/stowage/pkg/volumecache"
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
	bestFit := config.VolumeScoring{Strategy: config.ScoringBestFit, StaticWeightPercent: 50}
	least := config.VolumeScoring{Strategy: config.ScoringLeastAllocated, StaticWeightPercent: 50}
	most := config.VolumeScoring{Strategy: config.ScoringMostAllocated, StaticWeightPercent: 50}
	weighing := func(percent int32) config.VolumeScoring {
		return config.VolumeScoring{Strategy: config.ScoringMostAllocated, StaticWeightPercent: percent}
	}
	shaped := func(points ...config.UtilizationShapePoint) config.VolumeScoring {
		return config.VolumeScoring{Strategy: config.ScoringRequestedToCapacityRatio, Shape: points}
	}
	tests := map[string]struct {
		scoring config.VolumeScoring
		usage   []volumecache.Usage
		want    int64
	}{
		"best fit, existing: the fuller the better":        {bestFit, []volumecache.Usage{static(8, 10)}, 80},
		"best fit, existing: exact":                        {bestFit, []volumecache.Usage{static(10, 10)}, 100},
		"best fit, existing: nothing asked":                {bestFit, []volumecache.Usage{static(0, 10)}, 0},
		"best fit, provisioned: the emptier the better":    {bestFit, []volumecache.Usage{provisioned(8, 10)}, 20},
		"best fit, both: the mean":                         {bestFit, []volumecache.Usage{mixed(8, 10, 4, 10)}, 70},
		"best fit, classes: the mean":                      {bestFit, []volumecache.Usage{static(10, 10), static(5, 10), provisioned(10, 10)}, 50},
		"least allocated, existing":                        {least, []volumecache.Usage{static(8, 10)}, 20},
		"least allocated, provisioned":                     {least, []volumecache.Usage{provisioned(8, 10)}, 20},
		"most allocated, existing":                         {most, []volumecache.Usage{static(8, 10)}, 80},
		"most allocated, provisioned":                      {most, []volumecache.Usage{provisioned(8, 10)}, 80},
		"weight 0: provisioning alone counts":              {weighing(0), []volumecache.Usage{mixed(10, 10, 4, 10)}, 40},
		"weight 25":                                        {weighing(25), []volumecache.Usage{mixed(10, 10, 4, 10)}, 55},
		"weight 100: existing volumes alone count":         {weighing(100), []volumecache.Usage{mixed(10, 10, 4, 10)}, 100},
		"weight 0, but nothing is provisioned":             {weighing(0), []volumecache.Usage{static(7, 10)}, 70},
		"weight 100, but nothing exists":                   {weighing(100), []volumecache.Usage{provisioned(7, 10)}, 70},
		"unknown: neither best nor worst":                  {bestFit, []volumecache.Usage{{}}, 50},
		"no class at all":                                  {bestFit, nil, 50},
		"one class known, one not":                         {bestFit, []volumecache.Usage{static(10, 10), {}}, 75},
		"rounded":                                          {bestFit, []volumecache.Usage{static(2, 3)}, 67},
		"more asked than there is counts as full":          {most, []volumecache.Usage{provisioned(30, 10)}, 100},
		"more asked than there is counts as full, least":   {least, []volumecache.Usage{provisioned(30, 10)}, 0},
		"as large as can be said":                          {bestFit, []volumecache.Usage{static(math.MaxInt64, math.MaxInt64)}, 100},
		"as large as can be said, for one byte":            {bestFit, []volumecache.Usage{static(1, math.MaxInt64)}, 0},
		"as large as can be said, provisioned from a byte": {bestFit, []volumecache.Usage{provisioned(math.MaxInt64, 1)}, 0},
		"shape: at a point":                                {shaped(point(0, 0), point(50, 10), point(100, 4)), []volumecache.Usage{static(5, 10)}, 100},
		"shape: between points, rising":                    {shaped(point(0, 0), point(50, 10), point(100, 4)), []volumecache.Usage{static(1, 4)}, 50},
		"shape: between points, falling":                   {shaped(point(0, 0), point(50, 10), point(100, 4)), []volumecache.Usage{provisioned(3, 4)}, 70},
		"shape: before the first point":                    {shaped(point(20, 3), point(80, 9)), []volumecache.Usage{static(1, 10)}, 30},
		"shape: after the last point":                      {shaped(point(20, 3), point(80, 9)), []volumecache.Usage{static(9, 10)}, 90},
		"shape: one point is a constant":                   {shaped(point(40, 6)), []volumecache.Usage{static(9, 10), static(1, 10)}, 60},
		"shape: at both ends":                              {shaped(point(0, 10), point(100, 0)), []volumecache.Usage{static(0, 10), static(10, 10)}, 50},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := newScorer(tc.scoring).of(tc.usage); got != tc.want {
				t.Errorf("score %d, want %d", got, tc.want)
			}
		})
	}
}

func point(utilization, score int32) config.UtilizationShapePoint {
	return config.UtilizationShapePoint{Utilization: utilization, Score: score}
}

// TestScoresAreOnTheFrameworksScale: whatever is asked of whatever there is.
func TestScoresAreOnTheFrameworksScale(t *testing.T) {
	t.Parallel()
	amounts := []int64{0, 1, 2, 1 << 30, math.MaxInt64 - 1, math.MaxInt64}
	for _, scoring := range []config.VolumeScoring{
		{Strategy: config.ScoringBestFit, StaticWeightPercent: 33},
		{Strategy: config.ScoringLeastAllocated, StaticWeightPercent: 100},
		{Strategy: config.ScoringMostAllocated},
		{Strategy: config.ScoringRequestedToCapacityRatio, Shape: []config.UtilizationShapePoint{point(0, 10), point(1, 0), point(100, 10)}},
	} {
		s := newScorer(scoring)
		for _, a := range amounts {
			for _, b := range amounts {
				for _, c := range amounts {
					if got := s.of([]volumecache.Usage{mixed(a, b, c, a), provisioned(b, c)}); got < fwk.MinScore || got > fwk.MaxScore {
						t.Errorf("%s: score %d of %d, %d and %d bytes", scoring.Strategy, got, a, b, c)
					}
				}
			}
		}
	}
}

// TestScore: which nodes are preferred, end to end.
func TestScore(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		objects []runtime.Object
		claims  []string
		want    map[string]int64
	}{
		"the volume that fits best": {
			objects: []runtime.Object{volume("v", "a", "10Gi").Obj(), volume("w", "b", "20Gi").Obj(), claim("c", "10Gi").Obj()},
			claims:  []string{"c"},
			want:    map[string]int64{"a": 100, "b": 50},
		},
		"the roomier node to provision on": {
			objects: []runtime.Object{csiDriver(true), room("a", "a", "100Gi").Obj(), room("b", "b", "20Gi").Obj(), claim("c", "10Gi").Class("csi").Obj()},
			claims:  []string{"c"},
			want:    map[string]int64{"a": 90, "b": 50},
		},
		"the roomiest of several objects counts": {
			objects: []runtime.Object{
				csiDriver(true), room("a1", "a", "20Gi").Obj(), room("a2", "a", "100Gi").Obj(), room("a3", "a", "40Gi").Obj(),
				room("b", "b", "50Gi").Obj(), claim("c", "10Gi").Class("csi").Obj(),
			},
			claims: []string{"c"},
			want:   map[string]int64{"a": 90, "b": 80},
		},
		"a driver that does not tell its capacity": {
			objects: []runtime.Object{claim("c", "10Gi").Class("csi").Obj()},
			claims:  []string{"c"},
			want:    map[string]int64{"a": 50, "b": 50},
		},
		"only the size of volumes is told": {
			objects: []runtime.Object{
				csiDriver(true), claim("c", "10Gi").Class("csi").Obj(),
				room("a", "a", "100Gi").Obj(), sizeOnly("b", "20Gi"),
			},
			claims: []string{"c"},
			want:   map[string]int64{"a": 90, "b": 50},
		},
		"the class by the beta annotation alone": {
			objects: []runtime.Object{csiDriver(true), room("a", "a", "100Gi").Obj(), room("b", "b", "20Gi").Obj(), betaOnly("c", "csi")},
			claims:  []string{"c"},
			want:    map[string]int64{"a": 99, "b": 95},
		},
		"one claim existing, one provisioned": {
			objects: []runtime.Object{
				csiDriver(true), room("a", "a", "100Gi").Obj(), room("b", "b", "40Gi").Obj(),
				volume("v", "a", "20Gi").Obj(), volume("w", "b", "10Gi").Obj(), claim("c", "10Gi").Obj(), claim("d", "10Gi").Class("csi").Obj(),
			},
			claims: []string{"c", "d"},
			want:   map[string]int64{"a": 70, "b": 88},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, localClass().Obj(), csiClass().Obj(), node("a").Obj(), node("b").Obj())
			w.put(tc.objects...)
			c := w.begin(pod("p", tc.claims...))
			if status := w.PreScore(t.Context(), c.state, c.pod, nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			got := map[string]int64{}
			for node := range tc.want {
				score, status := w.Score(t.Context(), c.state, c.pod, w.info(node))
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				got[node] = score
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPreScoreSkips: nodes need not be compared when all claims are bound.
func TestPreScoreSkips(t *testing.T) {
	t.Parallel()
	w := newWorld(t, localClass().Obj(), node("a").Obj(), claim("c", "1Gi").Bound("v").Obj(),
		volume("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c").Obj())
	for name, p := range map[string]*cycle{"bound claims": w.begin(pod("p", "c")), "no claims": w.begin(pod("q"))} {
		if status := w.PreScore(t.Context(), p.state, p.pod, nil); !status.IsSkip() {
			t.Errorf("%s: status %v, want Skip", name, status)
		}
	}
}
