// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render evaluates the steps of a PavProvisioner: it makes the variables of a step from
// the objects of the API, evaluates the templates of the step, and decodes the result strictly.
// It is pure: claims that templates look up come from a function of the caller.
//
// The rules are those of the seed ("PavProvisioner objects", "Jinja templating", "Evaluation
// context"): a step is evaluated as a whole; each string in it, at any depth, is a template,
// keys of objects are none; a template that sets the variable yaml to true yields the value of
// its YAML, which is not evaluated again.
package render

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/template"
)

// Error is why a step cannot be evaluated.
type Error struct {
	// Field is the path of the field, such as spec.volumeCreation.podTemplate.spec.nodeName.
	Field string
	// Line and Column are the position in the template of the field, from 1. They are 0 if the
	// error is not at a position of a template.
	Line, Column int
	Message      string
}

// Error returns path, position and message.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Field + ": " + e.Message
	}
	return fmt.Sprintf("%s: line %d, column %d: %s", e.Field, e.Line, e.Column, e.Message)
}

func errorAt(path *field.Path, format string, args ...any) *Error {
	return &Error{Field: path.String(), Message: fmt.Sprintf(format, args...)}
}

// Request is what the evaluation of a step depends on. Evaluations of one Request may run
// concurrently if GetClaim allows it.
type Request struct {
	// Spec is that of the provisioner, as written.
	Spec *v1alpha1.PavProvisionerSpec
	// Variables are those of the step, as Variables returns them.
	Variables map[string]any
	// GetClaim returns a claim in the shape of JSON, with integers as int64, for the function
	// get_pvc. It is asked only for claims that the provisioner may read. Nil: get_pvc is an
	// error.
	GetClaim func(namespace, name string) (map[string]any, error)
}

// Validation evaluates volumeValidation. Fields without a value have their defaults; the
// capacities and the pod template are nil without a value. Errors are *Error.
func Validation(r Request) (*v1alpha1.VolumeValidation, error) {
	return evaluate(r, "volumeValidation", r.Spec.VolumeValidation, (*decoder).validation)
}

// Creation evaluates volumeCreation. Handle is empty, Capacity and PodTemplate are nil without a
// value. Errors are *Error.
func Creation(r Request) (*v1alpha1.VolumeCreation, error) {
	return evaluate(r, "volumeCreation", r.Spec.VolumeCreation, (*decoder).creation)
}

// Deletion evaluates volumeDeletion. PodTemplate is nil without a value. Errors are *Error.
func Deletion(r Request) (*v1alpha1.VolumeCleanup, error) {
	return evaluate(r, "volumeDeletion", r.Spec.VolumeDeletion, (*decoder).cleanup)
}

// Staging evaluates volumeStaging. Errors are *Error.
func Staging(r Request) (*v1alpha1.VolumeStaging, error) {
	return evaluate(r, "volumeStaging", &r.Spec.VolumeStaging, (*decoder).staging)
}

// Unstaging evaluates volumeUnstaging. PodTemplate is nil without a value. Errors are *Error.
func Unstaging(r Request) (*v1alpha1.VolumeCleanup, error) {
	return evaluate(r, "volumeUnstaging", r.Spec.VolumeUnstaging, (*decoder).cleanup)
}

// evaluate evaluates a step, which is nil if it is absent, and decodes the result.
func evaluate[T any](r Request, name string, step *T, decode func(*decoder) *T) (*T, error) {
	path := field.NewPath("spec", name)
	tree, err := written(path, step)
	if err != nil {
		return nil, err
	}
	e := evaluator{template.Scope{Variables: r.Variables, Functions: r.functions(), Budget: template.DefaultBudget()}}
	if tree, err = walk(path, tree, e.value); err != nil {
		return nil, err
	}
	d := &decoder{path: path}
	d.open(tree)
	if result := decode(d); d.err == nil {
		return result, nil
	}
	return nil, d.err
}

// written returns a step in the shape of JSON. A step that is absent is an empty object.
func written[T any](path *field.Path, step *T) (any, *Error) {
	if step == nil {
		return map[string]any{}, nil
	}
	text, err := json.Marshal(step)
	if err != nil {
		return nil, errorAt(path, "is not valid JSON: %v", err)
	}
	var tree any
	if err := utiljson.Unmarshal(text, &tree); err != nil {
		return nil, errorAt(path, "is not valid JSON: %v", err)
	}
	return tree, nil
}
