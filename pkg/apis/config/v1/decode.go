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
