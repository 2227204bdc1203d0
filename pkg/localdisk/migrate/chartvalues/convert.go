// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartvalues converts values of the Helm chart of sig-storage-local-static-provisioner, the reference, to
// values of Stowage's chart, so that its provisioners get the same configuration and run on the same nodes. The rules
// cover all versions of the reference's chart, from its values.yaml and its templates; values of the versions before
// 2.0, which are below common and daemonset, count as those of the same names at the top.
package chartvalues

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
)

// Result is converted values.
type Result struct {
	// Values are those of Stowage's chart that differ from its defaults.
	Values map[string]any
	// Warnings are lines that begin with the name of a value: those that were not converted, with the reason and what to do,
	// and what the provisioner warns of.
	Warnings []string
}

// Convert returns the values of Stowage's chart for values of the reference's, as YAML or JSON decodes them: objects are
// map[string]any, numbers int64 or float64. reference is not changed. Errors are a utilerrors.Aggregate of field.Errors:
// unknown values, values of another type, and a configuration that the provisioner rejects.
func Convert(reference map[string]any) (*Result, error) {
	c := &conversion{out: map[string]any{}, classAt: map[string]*field.Path{}}
	values, at := c.flatten(reference)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if r, known := topRules[name]; known {
			c.value(at[name], values[name], r, nil)
		} else {
			c.unknown(at[name])
		}
	}
	if _, set := values["classes"]; !set {
		c.warn(field.NewPath("classes"), "not set: the reference's default class is converted")
		c.classes(field.NewPath("classes"), defaultClasses, nil)
	}
	c.tolerate(values)
	c.cleanUpNodes(at["nodeCleanupController"], values["nodeCleanupController"])
	if len(c.errs) == 0 {
		c.check()
	}
	if len(c.errs) > 0 {
		return nil, c.errs.ToAggregate()
	}
	return &Result{Values: c.out, Warnings: c.warnings}, nil
}

// conversion is the state of Convert.
type conversion struct {
	out      map[string]any
	warnings []string
	errs     field.ErrorList
	// classAt is where the values of each class are in the reference's.
	classAt map[string]*field.Path
}

// flatten returns the values at the top with those below common and daemonset, and where each is.
func (c *conversion) flatten(reference map[string]any) (values map[string]any, at map[string]*field.Path) {
	values, at = map[string]any{}, map[string]*field.Path{}
	add := func(name string, path *field.Path, value any) {
		if other := at[name]; other != nil {
			c.errs = append(c.errs, field.Forbidden(path, "must not be set beside "+other.String()+": remove one of them"))
			return
		}
		values[name], at[name] = value, path
	}
	for _, name := range slices.Sorted(maps.Keys(reference)) {
		path, value := field.NewPath(name), reference[name]
		group, isObject := value.(map[string]any)
		switch {
		case name != "common" && name != "daemonset":
			add(name, path, value)
		case isObject:
			for _, name := range slices.Sorted(maps.Keys(group)) {
				add(name, path.Child(name), group[name])
			}
		case value != nil:
			c.invalid(path, object)
		}
	}
	return values, at
}

// kind is a type of values, as errors name it.
type kind string

const (
	object  kind = "an object"
	list    kind = "a list"
	text    kind = "a string"
	boolean kind = "true or false"
	number  kind = "a number"
)

// kindOf returns the type of a value that is not nil.
func kindOf(value any) kind {
	switch value.(type) {
	case map[string]any:
		return object
	case []any:
		return list
	case bool:
		return boolean
	case string:
		return text
	}
	return number
}

// rule is how a value of the reference's chart is converted. Empty values count as absent, as in its templates, unless same
// is set.
type rule struct {
	// kind is the type that the value must have; empty: any.
	kind kind
	// same is the value that has the effect of Stowage's chart, so that it needs no conversion.
	same any
	// to is the name of the value in Stowage's chart, with dots.
	to string
	// lost is the reason why there is none, and what to do.
	lost string
	// convert is called if it takes more than a copy. to is the prefix of names in Stowage's chart.
	convert func(c *conversion, at *field.Path, value any, to []string)
	// fields are those of an object. If enabled is set, they matter only if the field of this name is true.
	fields  map[string]rule
	enabled string
}

// object converts the fields of an object. to is the prefix of names in Stowage's chart.
func (c *conversion) object(at *field.Path, values map[string]any, r rule, to []string) {
	enabled := r.enabled == "" || !empty(values[r.enabled])
	for _, name := range slices.Sorted(maps.Keys(values)) {
		of, known := r.fields[name]
		switch {
		case !known:
			c.unknown(at.Child(name))
		case enabled:
			c.value(at.Child(name), values[name], of, to)
		}
	}
}

// value converts a value.
func (c *conversion) value(at *field.Path, value any, r rule, to []string) {
	switch {
	case value == nil: // removes a default
	case r.kind != "" && r.kind != kindOf(value):
		c.invalid(at, r.kind)
	case r.fields != nil && kindOf(value) == object:
		c.object(at, value.(map[string]any), r, to)
	case reflect.DeepEqual(value, r.same), r.same == nil && empty(value):
	case r.convert != nil:
		r.convert(c, at, value, to)
	case r.to != "":
		c.set(value, slices.Concat(to, strings.Split(r.to, "."))...)
	case r.lost != "":
		c.warn(at, r.lost)
	}
}

// empty reports whether a template takes a value for false.
func empty(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return value == nil || reflect.ValueOf(value).IsZero()
}

func (c *conversion) set(value any, name ...string) {
	_ = unstructured.SetNestedField(c.out, value, name...) // fails within values that are no objects
}

// add appends to a list.
func (c *conversion) add(value any, name ...string) {
	all, _, _ := unstructured.NestedSlice(c.out, name...)
	c.set(append(all, value), name...)
}

func (c *conversion) warn(at *field.Path, message string) {
	c.warnings = append(c.warnings, at.String()+": "+message)
}

func (c *conversion) unknown(at *field.Path) {
	c.errs = append(c.errs, field.Forbidden(at, "unknown value: the chart of sig-storage-local-static-provisioner has none of this name: correct or remove it"))
}

func (c *conversion) invalid(at *field.Path, want kind) {
	c.errs = append(c.errs, field.TypeInvalid(at, field.OmitValueType{}, fmt.Sprintf("must be %s", want)))
}

// check decodes the provisioner's configuration as the chart writes it.
func (c *conversion) check() {
	nested := func(name ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(c.out, name...)
		return value
	}
	data := map[string]string{}
	config, _ := nested("provisioner", "config").(map[string]any)
	for key, value := range config {
		data[key] = value.(string)
	}
	if nested("controller", "cleaningJobs") == true {
		data["useJobForCleaning"] = "true"
	}
	classes := map[string]any{}
	for name := range c.classAt {
		if settings := nested("provisioner", "classes", name, "settings"); settings != nil {
			classes[name] = settings
		}
	}
	encoded, err := yaml.Marshal(classes)
	if err != nil {
		c.errs = append(c.errs, field.InternalError(field.NewPath("classes"), err))
		return
	}
	data["storageClassMap"] = string(encoded)
	decoded, err := provisioner.Decode(data)
	var invalid provisioner.Errors
	switch {
	case errors.As(err, &invalid):
		for _, err := range invalid {
			err.Field = c.rename(err.Field)
			c.errs = append(c.errs, err)
		}
	case err != nil:
		c.errs = append(c.errs, field.InternalError(field.NewPath("classes"), err))
	default:
		for _, warning := range decoded.Warnings() {
			c.warnings = append(c.warnings, c.rename(warning))
		}
	}
}

// rename replaces the field of the provisioner's configuration at the beginning of a text by the value that it is from.
func (c *conversion) rename(text string) string {
	for name, at := range c.classAt {
		if rest, found := strings.CutPrefix(text, field.NewPath("storageClassMap").Key(name).String()); found {
			return at.String() + rest
		}
	}
	for key, value := range map[string]string{"storageClassMap": "classes", "nodeLabelsForPV": "nodeLabels", "jobTolerations": "tolerations"} {
		if rest, found := strings.CutPrefix(text, key); found {
			return value + rest
		}
	}
	return text
}
