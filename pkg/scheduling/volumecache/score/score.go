// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package score ranks nodes by how full a pod's claims would make their
// storage, as configured by the profile's scoring. The scheduler plugin and the extender
// share it.
package score

import (
	"math"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// Max is the best score; the worst is 0. It is the scheduling framework's scale.
const Max = 100

// Scorer turns usage into a score. Safe for concurrent use.
type Scorer struct {
	static, provisioned func(utilization float64) float64 // 0..100 → 0..100
	staticWeight        float64                           // 0..1
}

// neutral is the score without known usage: neither best nor worst.
const neutral = float64(Max) / 2

// New returns the scorer of a valid and defaulted configuration.
func New(cfg configv1.VolumeScoring) Scorer {
	most := func(utilization float64) float64 { return utilization }
	least := func(utilization float64) float64 { return 100 - utilization }
	s := Scorer{static: most, provisioned: least, staticWeight: float64(*cfg.StaticWeightPercent) / 100}
	switch cfg.Strategy {
	case configv1.ScoringLeastAllocated:
		s.static = least
	case configv1.ScoringMostAllocated:
		s.provisioned = most
	case configv1.ScoringRequestedToCapacityRatio:
		s.static = shaped(cfg.Shape)
		s.provisioned = s.static
	}
	return s
}

// Of is the mean over the pod's classes, 0 to Max, and neutral without classes.
func (s Scorer) Of(usage []volumecache.Usage) int64 {
	if len(usage) == 0 {
		return int64(neutral)
	}
	sum := 0.0
	for i := range usage {
		sum += s.class(&usage[i])
	}
	return int64(math.Round(sum / float64(len(usage))))
}

func (s Scorer) class(u *volumecache.Usage) float64 {
	static, provisioned := u.StaticGiven > 0, u.ProvisionedOf > 0
	switch {
	case static && provisioned:
		return s.staticWeight*s.static(utilization(u.StaticAsked, u.StaticGiven)) +
			(1-s.staticWeight)*s.provisioned(utilization(u.ProvisionedAsked, u.ProvisionedOf))
	case static:
		return s.static(utilization(u.StaticAsked, u.StaticGiven))
	case provisioned:
		return s.provisioned(utilization(u.ProvisionedAsked, u.ProvisionedOf))
	}
	return neutral
}

func utilization(asked, of int64) float64 {
	return min(100, 100*float64(asked)/float64(of))
}

// shaped is the function through the points, linear between them and constant
// outside. The points' scores are 0 to 10.
func shaped(points []configv1.UtilizationShapePoint) func(float64) float64 {
	const scale = float64(Max) / 10
	return func(utilization float64) float64 {
		for i, point := range points {
			x, y := float64(point.Utilization), float64(point.Score)
			if utilization > x {
				continue
			}
			if i == 0 {
				return y * scale
			}
			x0, y0 := float64(points[i-1].Utilization), float64(points[i-1].Score)
			return (y0 + (y-y0)*(utilization-x0)/(x-x0)) * scale
		}
		return float64(points[len(points)-1].Score) * scale
	}
}
