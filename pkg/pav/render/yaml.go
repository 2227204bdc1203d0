// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"go.yaml.in/yaml/v2"

	"stowage.dev/stowage/pkg/pav/template"
)

// parseYAML returns the value of a YAML document in the shape of JSON, as kubectl reads it (YAML
// 1.1; keys may override those of a merge). It is charged to the budget: aliases can make a value
// that is much larger than its text.
func parseYAML(text string, budget *template.Budget) (any, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var value, next any
	switch err := decoder.Decode(&value); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be one YAML document, and is several")
	}
	return shaped(value, budget, 0)
}

var errBudget = errors.New("the value is too large")

// shaped returns a value of the YAML library in the shape of JSON.
func shaped(value any, budget *template.Budget, depth int) (any, error) {
	if budget.Steps--; budget.Steps < 0 {
		return nil, errBudget
	}
	if depth > budget.Depth {
		return nil, errors.New("the value is nested too deeply")
	}
	switch v := value.(type) {
	case nil, bool, int64:
		return v, nil
	case int:
		return int64(v), nil
	case uint64:
		return nil, fmt.Errorf("%d is larger than the largest integer, %d", v, int64(math.MaxInt64))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v is not a number of JSON", v)
		}
		return v, nil
	case string:
		if budget.Bytes -= len(v); budget.Bytes < 0 {
			return nil, errBudget
		}
		return v, nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = shaped(v[i], budget, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[any]any:
		object := make(map[string]any, len(v))
		for k, element := range v {
			key, ok := k.(string)
			if !ok {
				return nil, fmt.Errorf("the key %v must be a string: put it in quotes", k)
			}
			if budget.Bytes -= len(key); budget.Bytes < 0 {
				return nil, errBudget
			}
			var err error
			if object[key], err = shaped(element, budget, depth+1); err != nil {
				return nil, err
			}
		}
		return object, nil
	default:
		return nil, fmt.Errorf("a value of type %T is not one of JSON", v)
	}
}
