// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// masked stands for a value that is not known, since it is a template that is not evaluated. Any
// field may have it.
type masked struct{}

// MarshalJSON returns null, which fits every type.
func (masked) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// decoder decodes the fields of one step. After an error, which it keeps, it returns zero values.
type decoder struct {
	path   *field.Path
	fields map[string]any
	// whole is true if the step as a whole is masked.
	whole bool
	err   *Error
}

// open takes the fields of a step.
func (d *decoder) open(tree any) {
	switch v := tree.(type) {
	case nil:
	case masked:
		d.whole = true
	case map[string]any:
		d.fields = v
	default:
		d.fail(d.path, "must be an object, or a template that yields one, and is %s", kind(v))
	}
}

func (d *decoder) fail(path *field.Path, format string, args ...any) {
	if d.err == nil {
		d.err = errorAt(path, format, args...)
	}
}

// known refuses fields that have none of the names.
func (d *decoder) known(names ...string) {
	for _, key := range slices.Sorted(maps.Keys(d.fields)) {
		if !slices.Contains(names, key) {
			d.fail(child(d.path, key), "unknown field: must be one of %s", strings.Join(names, ", "))
		}
	}
}

// has reports whether a field has a value.
func (d *decoder) has(name string) bool { return d.whole || d.fields[name] != nil }

func (d *decoder) validation() *v1alpha1.VolumeValidation {
	d.known("volumeModes", "accessModes", "minCapacity", "maxCapacity", "podTemplate")
	v := &v1alpha1.VolumeValidation{
		VolumeModes: list(d, "volumeModes",
			[]v1alpha1.VolumeMode{v1alpha1.VolumeMode(corev1.PersistentVolumeFilesystem)},
			v1alpha1.VolumeMode(corev1.PersistentVolumeBlock)),
		AccessModes: list(d, "accessModes",
			[]v1alpha1.AccessMode{v1alpha1.AccessMode(corev1.ReadWriteOnce), v1alpha1.AccessMode(corev1.ReadOnlyMany), v1alpha1.AccessMode(corev1.ReadWriteMany)},
			v1alpha1.AccessMode(corev1.ReadWriteOncePod)),
		MinCapacity: d.capacity("minCapacity"),
		MaxCapacity: d.capacity("maxCapacity"),
		PodTemplate: d.pod(),
	}
	if v.MinCapacity != nil && v.MaxCapacity != nil && v.MinCapacity.Cmp(*v.MaxCapacity) > 0 {
		d.fail(d.path.Child("minCapacity"), "must not be more than maxCapacity, %s, and is %s", v.MaxCapacity, v.MinCapacity)
	}
	return v
}

func (d *decoder) creation() *v1alpha1.VolumeCreation {
	d.known("handle", "capacity", "podTemplate")
	v := &v1alpha1.VolumeCreation{Handle: d.text("handle"), Capacity: d.capacity("capacity"), PodTemplate: d.pod()}
	if !d.has("capacity") && !d.has("podTemplate") {
		d.fail(d.path, "must have a capacity, or a podTemplate whose pod writes it to /pav/capacity")
	}
	return v
}

func (d *decoder) staging() *v1alpha1.VolumeStaging {
	d.known("podTemplate")
	if !d.has("podTemplate") {
		d.fail(d.path.Child("podTemplate"), "must be set")
	}
	return &v1alpha1.VolumeStaging{PodTemplate: d.pod()}
}

func (d *decoder) cleanup() *v1alpha1.VolumeCleanup {
	d.known("podTemplate")
	return &v1alpha1.VolumeCleanup{PodTemplate: d.pod()}
}

// text returns a string, which is empty only if the field has no value.
func (d *decoder) text(name string) string {
	switch v := d.fields[name].(type) {
	case nil, masked:
		return ""
	case string:
		if v == "" {
			d.fail(d.path.Child(name), "must not be empty")
		}
		return v
	default:
		d.fail(d.path.Child(name), "must be a string, and is %s", kind(v))
		return ""
	}
}

// list returns the items of a field: at least one, each of the default or the others. Without a
// value it returns the default.
func list[T ~string](d *decoder, name string, byDefault []T, others ...T) []T {
	path := d.path.Child(name)
	var items []any
	switch v := d.fields[name].(type) {
	case nil, masked:
		return byDefault
	case []any:
		items = v
	default:
		d.fail(path, "must be a list, and is %s", kind(v))
		return nil
	}
	if len(items) == 0 {
		d.fail(path, "must have at least one item")
	}
	allowed := append(slices.Clone(byDefault), others...)
	var found []T
	for i, item := range items {
		if _, unknown := item.(masked); unknown {
			continue
		}
		text, _ := item.(string)
		if !slices.Contains(allowed, T(text)) {
			d.fail(path.Index(i), "must be one of %v, and is %v", allowed, item)
		}
		found = append(found, T(text))
	}
	return found
}

func (d *decoder) capacity(name string) *resource.Quantity {
	switch v := d.fields[name].(type) {
	case nil, masked:
		return nil
	case int64:
		return d.parsed(name, strconv.FormatInt(v, 10))
	case string:
		return d.parsed(name, v)
	default:
		d.fail(d.path.Child(name), "must be a quantity, and is %s", kind(v))
		return nil
	}
}

func (d *decoder) parsed(name, text string) *resource.Quantity {
	quantity, err := ParseCapacity(text)
	if err != nil {
		d.fail(d.path.Child(name), "%v", err)
		return nil
	}
	return &quantity
}

// Kubernetes takes seconds to compare a quantity such as 1e9000000, so exponents are limited.
var quantityForm = regexp.MustCompile(`^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`)

// ParseCapacity returns a capacity that a template or a pod states: a quantity of bytes such as
// 1073741824 or 1Gi, more than 0 and at most the largest integer.
func ParseCapacity(text string) (resource.Quantity, error) {
	if len(text) > 64 || !quantityForm.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("must be a quantity such as 1073741824 or 1Gi, and is %.64q", text)
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, err
	}
	if quantity.Sign() <= 0 || quantity.CmpInt64(math.MaxInt64) > 0 {
		return resource.Quantity{}, fmt.Errorf("must be more than 0 and at most %d bytes, and is %s", int64(math.MaxInt64), text)
	}
	return quantity, nil
}

// pod decodes the pod template strictly: fields that a PodTemplateSpec does not have are errors.
func (d *decoder) pod() *corev1.PodTemplateSpec {
	path := d.path.Child("podTemplate")
	tree := d.fields["podTemplate"]
	switch v := tree.(type) {
	case nil, masked:
		return nil
	case map[string]any:
	default:
		d.fail(path, "must be an object, or a template that yields one, and is %s", kind(v))
		return nil
	}
	text, err := json.Marshal(tree)
	if err != nil {
		d.fail(path, "%v", err)
		return nil
	}
	pod := &corev1.PodTemplateSpec{}
	unknown, err := kjson.UnmarshalStrict(text, pod)
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		d.fail(path.Child(mismatch.Field), "must not be of the type %s", mismatch.Value)
	} else if err != nil {
		d.fail(path, "%v", err)
	}
	for _, err := range unknown {
		at := path
		if named, ok := errors.AsType[kjson.FieldError](err); ok {
			at = path.Child(named.FieldPath())
		}
		d.fail(at, "unknown field of a PodTemplateSpec")
	}
	return pod
}

// kind returns the kind of a value of JSON, for messages.
func kind(value any) string {
	switch value.(type) {
	case nil, masked:
		return "null"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
