// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"stowage.dev/stowage/pkg/apis/controller"
	"stowage.dev/stowage/pkg/apis/controller/validation"
)

// decoder reads JSON or YAML strictly (unknown and repeated fields are errors),
// defaults it and converts it to the internal type. Made at first use, because
// the generated conversions are registered by an init function, which runs after
// package variables are set.
var decoder = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(controller.AddToScheme(scheme))
	utilruntime.Must(AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(controller.SchemeGroupVersion)
})

// Decode turns a configuration file's content into a valid configuration. Errors
// name the field and what is allowed. apiVersion and kind must be there. Safe for
// concurrent use.
func Decode(data []byte) (*controller.ControllerConfiguration, error) {
	obj, actual, err := decoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	c, ok := obj.(*controller.ControllerConfiguration)
	if !ok {
		return nil, fmt.Errorf("decode the configuration: got %s, want ControllerConfiguration", actual)
	}
	if err := validation.Validate(c); err != nil {
		return nil, fmt.Errorf("invalid configuration: %w", err)
	}
	return c, nil
}

// Default is the configuration that leaves everything open.
func Default() (*controller.ControllerConfiguration, error) {
	in, out := &ControllerConfiguration{}, &controller.ControllerConfiguration{}
	SetObjectDefaults_ControllerConfiguration(in)
	err := Convert_v1alpha1_ControllerConfiguration_To_controller_ControllerConfiguration(in, out, nil)
	return out, err
}
