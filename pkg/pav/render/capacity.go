// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/template"
)

// StorageCapacity evaluates storageCapacity for a node, in the shape of JSON with integers as int64,
// and returns bytes; 0 if the node has none, which a template that yields no text says, too. Errors
// are *Error.
func StorageCapacity(spec *v1alpha1.PavProvisionerSpec, node map[string]any) (int64, error) {
	path := field.NewPath("spec", "storageCapacity")
	capacity := spec.StorageCapacity
	if capacity == nil {
		return 0, errorAt(path, "must be set")
	}
	text := strconv.Itoa(capacity.IntValue())
	if capacity.Type == intstr.String {
		e := evaluator{template.Scope{Variables: map[string]any{"node": node}, Functions: Request{Spec: spec}.functions(), Budget: template.DefaultBudget()}}
		value, err := e.value(path, capacity.StrVal)
		if err != nil {
			return 0, err
		}
		switch v := value.(type) {
		case string:
			text = strings.TrimSpace(v)
		case int64:
			text = strconv.FormatInt(v, 10)
		default:
			return 0, errorAt(path, "must be a quantity, and is %s", kind(v))
		}
	}
	if text == "" || text == "0" {
		return 0, nil
	}
	quantity, err := ParseCapacity(text)
	if err != nil {
		return 0, errorAt(path, "%v", err)
	}
	return quantity.Value(), nil
}
