// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"cmp"
	"fmt"
	"net"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Configuration is a pointer to the type C of a configuration file.
type Configuration[C any] interface {
	*C
	runtime.Object
	// SetDefaults fills every field that the user left out.
	SetDefaults()
	// Validate returns the faults of a defaulted configuration, each with the path of its field
	// and what is allowed.
	Validate() field.ErrorList
}

// Decode turns the content of a configuration file, JSON or YAML, into a defaulted and valid
// configuration. Errors name the field and what is allowed: unknown and repeated fields are
// errors, and apiVersion and kind are required. Safe for concurrent use.
func Decode[C any, P Configuration[C]](data []byte, version schema.GroupVersion) (*C, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, P(new(C)))
	obj, actual, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	c, ok := obj.(P)
	if !ok {
		return nil, fmt.Errorf("decode the configuration: got %s, want %T", actual, c)
	}
	c.SetDefaults()
	if err := c.Validate().ToAggregate(); err != nil {
		return nil, fmt.Errorf("invalid configuration: %w", err)
	}
	return (*C)(c), nil
}

// Default sets a field that has its zero value, which means that the user left it out.
func Default[T comparable](field *T, value T) {
	*field = cmp.Or(*field, value)
}

// ValidateAddress requires host:port, where host may be left out, and returns the host.
func ValidateAddress(path *field.Path, address string) (host string, errs field.ErrorList) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return host, field.ErrorList{field.Invalid(path, address, "must be host:port; host may be left out: "+err.Error())}
	}
	return host, nil
}

// ValidateRange requires a value from lowest to highest, inclusive.
func ValidateRange[T cmp.Ordered](path *field.Path, value, lowest, highest T) field.ErrorList {
	if value >= lowest && value <= highest {
		return nil
	}
	var shown any = value
	if text, ok := shown.(fmt.Stringer); ok {
		shown = text.String()
	}
	return field.ErrorList{field.Invalid(path, shown, fmt.Sprintf("must be %v to %v", lowest, highest))}
}

// ValidateOneOf requires one of the allowed values. The error does not list the empty one.
func ValidateOneOf[T ~string](path *field.Path, value T, allowed sets.Set[T]) field.ErrorList {
	if allowed.Has(value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, sets.List(allowed.Difference(sets.New[T](""))))}
}
