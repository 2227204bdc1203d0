// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/pav/template"
)

// walk returns a copy of a value in which each string is replaced by what replace returns for
// it. It stops at the first error. Keys are visited in order, so that the same value always
// gives the same error and uses the same budget.
func walk(path *field.Path, value any, replace func(*field.Path, string) (any, *Error)) (any, *Error) {
	var err *Error
	switch v := value.(type) {
	case string:
		return replace(path, v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			if list[i], err = walk(path.Index(i), v[i], replace); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if object[key], err = walk(child(path, key), v[key], replace); err != nil {
				return nil, err
			}
		}
		return object, nil
	default:
		return value, nil
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// child returns the path of a key, in brackets if dots and slashes in it could be misread.
func child(path *field.Path, key string) *field.Path {
	if plainKey.MatchString(key) {
		return path.Child(key)
	}
	return path.Key(key)
}

// evaluator evaluates the templates of one step, which share a budget.
type evaluator struct{ scope template.Scope }

func (e *evaluator) value(path *field.Path, source string) (any, *Error) {
	parsed, err := template.Parse(source)
	if err != nil {
		return nil, positioned(path, err)
	}
	result, err := parsed.Execute(e.scope)
	if err != nil {
		return nil, positioned(path, err)
	}
	if !result.YAML {
		return result.Text, nil
	}
	value, err := parseYAML(result.Text, e.scope.Budget)
	if err != nil {
		return nil, errorAt(path, "the result of the template, with yaml = true: %v", err)
	}
	return value, nil
}

// positioned returns the error of a template with the path of its field.
func positioned(path *field.Path, err error) *Error {
	if at, ok := errors.AsType[*template.Error](err); ok {
		return &Error{Field: path.String(), Line: at.Line, Column: at.Column, Message: at.Message}
	}
	return errorAt(path, "%v", err)
}

// functions returns those that templates can call.
func (r Request) functions() map[string]template.Function {
	return map[string]template.Function{"get_pvc": r.getClaim}
}

// getClaim is get_pvc(name, namespace). It reads the namespace of the variable pvc, and those in
// podNamespaces.names: a template must not show a tenant what is in the namespace of another.
func (r Request) getClaim(arguments []any) (any, error) {
	if len(arguments) != 2 {
		return nil, fmt.Errorf("must have a name and a namespace, and has %d arguments", len(arguments))
	}
	name, isName := arguments[0].(string)
	namespace, isNamespace := arguments[1].(string)
	if !isName || !isNamespace {
		return nil, errors.New("name and namespace must be strings")
	}
	claim, _ := r.Variables["pvc"].(map[string]any)
	own, _, _ := unstructured.NestedString(claim, "metadata", "namespace")
	if namespace != own && !slices.Contains(r.Spec.PodNamespaces.Names, namespace) {
		return nil, fmt.Errorf("must not read namespace %q, which is neither that of the claim nor in spec.podNamespaces.names", namespace)
	}
	if r.GetClaim == nil {
		return nil, errors.New("there are no claims to read")
	}
	found, err := r.GetClaim(namespace, name)
	if err != nil {
		return nil, err
	}
	return found, nil
}
