// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Values that are not those of JSON: undefined, *namespace, *loop and *function. They have no
// text and cannot be given to Functions.

// undefined is the value of what does not exist. Only a few operations accept it.
type undefined struct {
	// node is what does not exist, unless there is a reason.
	node   expression
	reason string
}

func (u undefined) String() string {
	if u.reason != "" {
		return u.reason
	}
	if p := path(u.node); p != "" {
		return "'" + p + "' is undefined"
	}
	if n, ok := u.node.(*attributeNode); ok {
		return "the attribute '" + n.name + "' is undefined"
	}
	return "the element is undefined"
}

// namespace is an object whose attributes set can assign from inside of loops.
type namespace struct {
	values map[string]any
}

// function is something that can be called.
type function struct {
	name    string
	routine routine
}

// kind returns what a value is, for messages.
func kind(value any) string {
	switch v := value.(type) {
	case undefined:
		return "undefined"
	case nil:
		return "none"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "a dict"
	case *loop:
		return "a loop"
	case *namespace:
		return "a namespace"
	case *function:
		return "the function " + v.name
	}
	return fmt.Sprintf("a value of the unsupported Go type %T", value)
}

// need fails if a value is undefined.
func (e *evaluator) need(value any) {
	if u, ok := value.(undefined); ok {
		e.fail("%s", u)
	}
}

// truth returns Python's bool(value).
func (e *evaluator) truth(value any) bool {
	switch v := value.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// text returns the text of a value that has one: a string or a number.
func (e *evaluator) text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return formatInt(v)
	case float64:
		return formatFloat(v)
	}
	e.need(value)
	e.fail("%s has no text: only strings and numbers can be printed; use the filter tojson", kind(value))
	return ""
}

func formatInt(i int64) string { return strconv.FormatInt(i, 10) }

// formatFloat returns Python's repr of a float: the shortest digits, never without ".0" or an
// exponent.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'f', -1, 64)), "+")
	}
	exponential := strconv.FormatFloat(f, 'e', -1, 64)
	_, digits, _ := strings.Cut(exponential, "e")
	if exponent, _ := strconv.Atoi(digits); exponent < -4 || exponent >= 16 {
		return exponential
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// newText accounts for a string that was produced, and returns it as a value.
func (e *evaluator) newText(text string) any {
	e.produce(len(text))
	e.read(len(text))
	return text
}

// characters returns the characters of a string as strings.
func (e *evaluator) characters(text string) []any {
	e.produceList(utf8.RuneCountInString(text))
	var all []any
	for _, r := range text {
		all = append(all, string(r))
	}
	return all
}

// elements returns what iterating over a value visits. The caller must not change it. Dicts are
// visited in the order of their keys.
func (e *evaluator) elements(value any) []any {
	switch v := value.(type) {
	case undefined:
		return nil
	case []any:
		return v
	case string:
		return e.characters(v)
	case map[string]any:
		keys := e.keys(v)
		e.produceList(len(keys))
		all := make([]any, len(keys))
		for i, k := range keys {
			all[i] = k
		}
		return all
	}
	e.fail("cannot iterate over %s", kind(value))
	return nil
}

// keys returns the sorted keys of a dict.
func (e *evaluator) keys(dict map[string]any) []string {
	e.produceList(len(dict))
	keys := slices.Sorted(maps.Keys(dict))
	for _, k := range keys {
		e.read(len(k))
	}
	return keys
}

// items returns the entries of a dict, each a list of key and value, in the order of their keys.
func (e *evaluator) items(dict map[string]any) []any {
	keys := e.keys(dict)
	e.produceList(3 * len(keys))
	all := make([]any, len(keys))
	for i, k := range keys {
		all[i] = []any{k, dict[k]}
	}
	return all
}

// length returns Python's len(value).
func (e *evaluator) length(value any) int64 {
	switch v := value.(type) {
	case undefined:
		return 0
	case string:
		e.read(len(v))
		return int64(utf8.RuneCountInString(v))
	case []any:
		return int64(len(v))
	case map[string]any:
		return int64(len(v))
	}
	e.fail("%s has no length", kind(value))
	return 0
}

// plain fails if a value has something inside that JSON does not have.
func (e *evaluator) plain(value any) {
	e.step(1)
	switch v := value.(type) {
	case nil, bool, int64, float64, string:
	case []any:
		e.deeper(func() {
			for _, element := range v {
				e.plain(element)
			}
		})
	case map[string]any:
		e.deeper(func() {
			for _, k := range e.keys(v) { // in order, so that the same element fails
				e.plain(v[k])
			}
		})
	default:
		e.need(value)
		e.fail("%s cannot be an argument of a function", kind(value))
	}
}
