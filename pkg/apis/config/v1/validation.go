// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"stowage.dev/stowage/pkg/apis/component"
)

// Bounds of the numeric fields, inclusive.
const (
	minBindTimeoutSeconds = 1
	maxBindTimeoutSeconds = 3600
	maxPercent            = 100
	maxShapeScore         = 10
)

var (
	bindingModes = sets.New(BindingModeDirect, BindingModePVController)

	scoringStrategies = sets.New(
		ScoringBestFit,
		ScoringLeastAllocated,
		ScoringMostAllocated,
		ScoringRequestedToCapacityRatio,
	)
)

// ValidateVolumeTopologyArgs returns nil or an aggregate of *field.Error, one
// for each fault in args, with paths under path. A nil path names fields from
// the top of the arguments. The arguments must be defaulted.
func ValidateVolumeTopologyArgs(path *field.Path, args *VolumeTopologyArgs) error {
	errs := validateBindTimeout(path.Child("bindTimeoutSeconds"), ptr.Deref(args.BindTimeoutSeconds, 0))
	return append(errs, ValidateBinding(path, args.BindingMode, &args.Scoring)...).ToAggregate()
}

// ValidateBinding returns the faults of the fields bindingMode and scoring under
// path, which other configurations have too.
func ValidateBinding(path *field.Path, mode BindingMode, scoring *VolumeScoring) field.ErrorList {
	return append(component.ValidateOneOf(path.Child("bindingMode"), mode, bindingModes), validateScoring(path.Child("scoring"), scoring)...)
}

func validateBindTimeout(path *field.Path, seconds int64) field.ErrorList {
	if seconds == 0 {
		return field.ErrorList{field.Invalid(path, seconds, fmt.Sprintf(
			"must be %d to %d: a bind that may not wait can never finish; leave the field out for the default",
			minBindTimeoutSeconds, maxBindTimeoutSeconds))}
	}
	return component.ValidateRange(path, seconds, minBindTimeoutSeconds, maxBindTimeoutSeconds)
}

func validateScoring(path *field.Path, scoring *VolumeScoring) field.ErrorList {
	errs := component.ValidateOneOf(path.Child("strategy"), scoring.Strategy, scoringStrategies)
	shapePath := path.Child("shape")
	shaped := scoring.Strategy == ScoringRequestedToCapacityRatio
	switch {
	case len(errs) > 0:
	case shaped && len(scoring.Shape) == 0:
		errs = append(errs, field.Required(shapePath, fmt.Sprintf(
			"strategy %s needs at least one point", ScoringRequestedToCapacityRatio)))
	case !shaped && len(scoring.Shape) > 0:
		errs = append(errs, field.Forbidden(shapePath, fmt.Sprintf(
			"only strategy %s uses it", ScoringRequestedToCapacityRatio)))
	default:
		errs = append(errs, validateShape(shapePath, scoring.Shape)...)
	}

	return append(errs, component.ValidateRange(path.Child("staticWeightPercent"), ptr.Deref(scoring.StaticWeightPercent, 0), 0, maxPercent)...)
}

func validateShape(path *field.Path, shape []UtilizationShapePoint) field.ErrorList {
	var errs field.ErrorList
	for i, point := range shape {
		utilizationPath := path.Index(i).Child("utilization")
		errs = append(errs, component.ValidateRange(utilizationPath, point.Utilization, 0, maxPercent)...)
		if i > 0 && point.Utilization <= shape[i-1].Utilization {
			errs = append(errs, field.Invalid(utilizationPath, point.Utilization, fmt.Sprintf(
				"must be greater than %d, the utilization of the point before", shape[i-1].Utilization)))
		}
		errs = append(errs, component.ValidateRange(path.Index(i).Child("score"), point.Score, 0, maxShapeScore)...)
	}
	return errs
}
