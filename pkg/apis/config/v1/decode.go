// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"stowage.dev/stowage/pkg/apis/component"
)

// decoder reads JSON or YAML strictly: unknown and repeated fields are errors.
var decoder = sync.OnceValue(func() runtime.Decoder {
	return serializer.NewCodecFactory(newArgsScheme(), serializer.EnableStrict).UniversalDeserializer()
})

// newArgsScheme returns a scheme with the argument types only.
func newArgsScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToScheme(scheme))
	return scheme
}

// DecodeArgs turns the configuration object that the scheduler framework hands
// a plugin factory into valid arguments. It accepts
//   - nil, or *runtime.Unknown without content: all defaults;
//   - *VolumeTopologyArgs, from a scheduler whose configuration scheme has the
//     type (package scheme);
//   - *runtime.Unknown, from a scheduler that registered the plugin without
//     the scheme: decoded strictly. apiVersion and kind are optional.
//
// The result is defaulted, validated and a copy; obj is not changed.
// Errors name the field and what is allowed. Safe for concurrent use.
func DecodeArgs(obj runtime.Object) (*VolumeTopologyArgs, error) {
	args, err := decodeArgs(obj)
	if err != nil {
		return nil, fmt.Errorf("decode arguments of plugin %s: %w", PluginName, err)
	}
	args.TypeMeta = metav1.TypeMeta{}
	SetObjectDefaults_VolumeTopologyArgs(args)
	if err := ValidateVolumeTopologyArgs(nil, args); err != nil {
		return nil, fmt.Errorf("invalid arguments of plugin %s: %w", PluginName, err)
	}
	return args, nil
}

func decodeArgs(obj runtime.Object) (*VolumeTopologyArgs, error) {
	switch obj := obj.(type) {
	case nil:
		return &VolumeTopologyArgs{}, nil
	case *VolumeTopologyArgs:
		return obj.DeepCopy(), nil
	case *runtime.Unknown:
		if len(obj.Raw) == 0 {
			return &VolumeTopologyArgs{}, nil
		}
		args, gvk := &VolumeTopologyArgs{}, SchemeGroupVersion.WithKind(PluginName+"Args")
		decoded, actual, err := decoder().Decode(obj.Raw, &gvk, args)
		if err == nil && decoded != runtime.Object(args) {
			return nil, fmt.Errorf("got %s, want %s", actual, gvk)
		}
		return args, err
	}
	return nil, fmt.Errorf("got %T, want *v1.VolumeTopologyArgs or *runtime.Unknown", obj)
}

// Defaults, as users see them in docs/configuration.md.
const (
	defaultBindTimeoutSeconds  int64 = 600
	defaultStaticWeightPercent int32 = 50
)

// SetDefaults_VolumeTopologyArgs sets every field that the user left out. Called
// through the scheme; the name is what defaulter-gen looks for.
func SetDefaults_VolumeTopologyArgs(obj *VolumeTopologyArgs) { //nolint:revive // defaulter-gen prescribes the name
	component.Default(&obj.BindTimeoutSeconds, new(defaultBindTimeoutSeconds))
	component.Default(&obj.BindingMode, BindingModeDirect)
	component.Default(&obj.Scoring.Strategy, ScoringBestFit)
	component.Default(&obj.Scoring.StaticWeightPercent, new(defaultStaticWeightPercent))
}

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
