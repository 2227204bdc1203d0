// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// key is a field that a T may have, and how it is read. Fields that are absent
// or empty are not read.
type key[T any] struct {
	name string
	read func(node, T)
}

// readKeys reads the fields of n, in the order of keys, and reports unknown ones. It returns
// whether n is a map.
func readKeys[T any](n node, of string, keys []key[T], into T) bool {
	values, ok := n.mapping(of)
	if !ok {
		return false
	}
	for _, key := range keys {
		if value := values[key.name]; !isEmpty(value) {
			key.read(n.child(key.name, value), into)
		}
	}
	names := namesOf(keys)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			n.child(name, nil).failf("%s", unknown(name, names))
		}
	}
	return true
}

func namesOf[T any](keys []key[T]) []string {
	var names []string
	for _, key := range keys {
		names = append(names, key.name)
	}
	return names
}

// unknown returns the message about an unknown key.
func unknown(key string, allowed []string) string {
	for _, name := range allowed {
		if strings.EqualFold(name, key) {
			return "unknown key: write " + name
		}
	}
	return "unknown key: allowed are " + strings.Join(allowed, ", ")
}

// oneOf reads one of several words.
func oneOf[T ~string](n node, allowed ...T) (T, bool) {
	text, ok := n.text()
	if !ok {
		return "", false
	}
	if !slices.Contains(allowed, T(text)) {
		var words []string
		for _, word := range allowed {
			words = append(words, string(word))
		}
		n.failf("must be %s, and is %q", either(words), text)
		return "", false
	}
	return T(text), true
}

// either joins words with an or: "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// set stores a value that could be read.
func set[T any](field *T) func(T, bool) {
	return func(value T, ok bool) {
		if ok {
			*field = value
		}
	}
}

// isEmpty reports whether a value counts as absent.
func isEmpty(value any) bool { return value == nil || value == "" }

func isScalar(value any) bool {
	switch value.(type) {
	case bool, json.Number:
		return true
	}
	return false
}

// describe returns a value as messages have it.
func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "empty"
	case string:
		return fmt.Sprintf("the string %q", value)
	case bool:
		return fmt.Sprintf("the boolean %t", value)
	case json.Number:
		return "the number " + value.String()
	case []any:
		return "a list"
	default:
		return "a map"
	}
}
