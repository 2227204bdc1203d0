// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"stowage.dev/stowage/pkg/apis/config"
	"stowage.dev/stowage/pkg/apis/config/validation"
)

// argsDecoder returns the decoder of arguments: JSON or YAML, strictly
// (unknown and repeated fields are errors), defaulted, converted to the internal
// type. Made at first use, because the generated conversions are registered by
// an init function, which runs after package variables are set.
var argsDecoder = sync.OnceValue(func() runtime.Decoder {
	return serializer.NewCodecFactory(newArgsScheme(), serializer.EnableStrict).
		UniversalDecoder(config.SchemeGroupVersion)
})

// newArgsScheme returns a scheme with the argument types only.
func newArgsScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(config.AddToScheme(scheme))
	utilruntime.Must(AddToScheme(scheme))
	return scheme
}

// DecodeArgs turns the configuration object that the scheduler framework hands
// a plugin factory into valid arguments. It accepts
//   - nil, or *runtime.Unknown without content: all defaults;
//   - *config.VolumeTopologyArgs, from a scheduler whose configuration
//     scheme has the type (package scheme), and
//     *VolumeTopologyArgs;
//   - *runtime.Unknown, from a scheduler that registered the plugin without
//     the scheme: decoded strictly and defaulted. apiVersion and kind are
//     optional.
//
// The result is validated and a copy; obj is not changed.
// Errors name the field and what is allowed. Safe for concurrent use.
func DecodeArgs(obj runtime.Object) (*config.VolumeTopologyArgs, error) {
	args, err := toInternal(obj)
	if err != nil {
		return nil, fmt.Errorf("decode arguments of plugin %s: %w", config.PluginName, err)
	}
	if err := validation.ValidateVolumeTopologyArgs(nil, args); err != nil {
		return nil, fmt.Errorf("invalid arguments of plugin %s: %w", config.PluginName, err)
	}
	return args, nil
}

func toInternal(obj runtime.Object) (*config.VolumeTopologyArgs, error) {
	switch obj := obj.(type) {
	case nil:
		return convert(&VolumeTopologyArgs{})
	case *config.VolumeTopologyArgs:
		return obj.DeepCopy(), nil
	case *VolumeTopologyArgs:
		return convert(obj.DeepCopy())
	case *runtime.Unknown:
		return decode(obj)
	}
	return nil, fmt.Errorf("got %T, want *config.VolumeTopologyArgs or *runtime.Unknown", obj)
}

// convert sets the defaults of in and converts it.
func convert(in *VolumeTopologyArgs) (*config.VolumeTopologyArgs, error) {
	SetObjectDefaults_VolumeTopologyArgs(in)
	out := &config.VolumeTopologyArgs{}
	if err := Convert_v1_VolumeTopologyArgs_To_config_VolumeTopologyArgs(in, out, nil); err != nil {
		return nil, err
	}
	return out, nil
}

func decode(unknown *runtime.Unknown) (*config.VolumeTopologyArgs, error) {
	if len(unknown.Raw) == 0 {
		return convert(&VolumeTopologyArgs{})
	}
	gvk := SchemeGroupVersion.WithKind(config.PluginName + "Args")
	obj, actual, err := argsDecoder().Decode(unknown.Raw, &gvk, nil)
	if err != nil {
		return nil, err
	}
	args, ok := obj.(*config.VolumeTopologyArgs)
	if !ok {
		return nil, fmt.Errorf("got %s, want %s", actual, gvk)
	}
	return args, nil
}
