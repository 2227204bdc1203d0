// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// decoder reads JSON or YAML strictly: unknown and repeated fields are errors.
var decoder = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
})

// Decode turns the content of a configuration file into a defaulted and valid
// configuration. Errors name the field and what is allowed. apiVersion and kind are
// required. Safe for concurrent use.
func Decode(data []byte) (*ExtenderConfiguration, error) {
	obj, actual, err := decoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	c, ok := obj.(*ExtenderConfiguration)
	if !ok {
		return nil, fmt.Errorf("decode the configuration: got %s, want ExtenderConfiguration", actual)
	}
	setDefaults(c)
	if err := validate(c); err != nil {
		return nil, fmt.Errorf("invalid configuration: %w", err)
	}
	return c, nil
}
