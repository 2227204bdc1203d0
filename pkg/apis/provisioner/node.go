// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// node is a value in a configuration. Its findings are added to errs, which all nodes of a
// configuration share.
type node struct {
	path  *field.Path
	value any
	errs  *Errors
}

// parseYAML reads the value of a key of the ConfigMap. The value is nil
// both if it is absent and if it cannot be read; ok is false for the latter.
func parseYAML(key, text string, errs *Errors) (n node, ok bool) {
	n = node{path: field.NewPath(key), errs: errs}
	if holdsDocuments(text) {
		n.failf("must be one YAML document: remove the lines --- and ...")
		return n, false
	}
	encoded, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		n.failYAML(err)
		return n, false
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&n.value); err != nil && !errors.Is(err, io.EOF) {
		n.failYAML(err)
		return n, false
	}
	return n, true
}

// holdsDocuments reports whether a line of text ends a YAML document, after which the decoder
// would stop without an error. A first line --- is allowed.
func holdsDocuments(text string) bool {
	begun := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case line == "..." || strings.HasPrefix(line, "... "):
			return true
		case line == "---" || strings.HasPrefix(line, "--- "):
			if begun {
				return true
			}
			begun = true
		case line != "" && !strings.HasPrefix(strings.TrimLeft(line, " \t"), "#"):
			begun = true
		}
	}
	return false
}

// failYAML reports the decoder's errors: one for each line after a heading. Line numbers count
// from the start of the key's value.
func (n node) failYAML(err error) {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "yaml: ")
	lines := strings.SplitSeq(strings.TrimPrefix(text, "unmarshal errors:\n"), "\n")
	for line := range lines {
		line = strings.TrimSpace(line)
		line = strings.Replace(line, "already set in map", "is repeated", 1)
		n.failf("not valid YAML: %s", line)
	}
}

// child returns a field of n.
func (n node) child(name string, value any) node {
	return node{path: n.path.Child(name), value: value, errs: n.errs}
}

// entries returns the entries of a map whose keys users choose, sorted by key. It reports values
// that are not a map, and keys that the decoder may have converted: it does not distinguish
// "true" from true or from y.
func (n node) entries(of string) []entry {
	values, ok := n.mapping(of)
	if !ok {
		return nil
	}
	var all []entry
	for _, key := range slices.Sorted(maps.Keys(values)) {
		one := entry{key, node{path: n.path.Key(key), value: values[key], errs: n.errs}}
		if from, ok := madeOf[key]; ok {
			one.failf("cannot be a name, because YAML reads %s as %s: put the name in quotes", from, key)
			continue
		}
		all = append(all, one)
	}
	return all
}

// entry is one of a map whose keys users choose.
type entry struct {
	key string
	node
}

// madeOf are keys, and the words without quotes that YAML converts to them.
var madeOf = map[string]string{"true": "y, yes and on", "false": "n, no and off"}

func (n node) mapping(of string) (map[string]any, bool) {
	values, ok := n.value.(map[string]any)
	if !ok && n.value != nil {
		n.failf("must be a map of %s, and is %s", of, describe(n.value))
	}
	return values, ok
}

// list returns the items of n. It reports values that are not a list.
func (n node) list(of string) (items []node, ok bool) {
	values, ok := n.value.([]any)
	if !ok {
		n.failf("must be a list of %s, each on a line of its own after a dash, and is %s", of, describe(n.value))
		return nil, false
	}
	for i, value := range values {
		items = append(items, node{path: n.path.Index(i), value: value, errs: n.errs})
	}
	return items, true
}

// text reads a string. YAML converts some words without quotes (yes, 1.10,
// 0x10), which loses their spelling: these are rejected.
func (n node) text() (string, bool) {
	text, ok := n.value.(string)
	switch {
	case ok:
		return text, true
	case isScalar(n.value):
		n.failf("must be a string, and YAML reads %s here: put it in quotes", describe(n.value))
	default:
		n.failf("must be a string, and is %s", describe(n.value))
	}
	return "", false
}

func (n node) boolean() (value, ok bool) {
	value, ok = n.value.(bool)
	if !ok {
		n.failf("must be true or false, and is %s", describe(n.value))
	}
	return value, ok
}

// integer reads a whole number from lowest to highest, inclusive.
func (n node) integer(lowest, highest int) (int, bool) {
	number, _ := n.value.(json.Number)
	value, err := strconv.Atoi(number.String())
	if err != nil || value < lowest || value > highest {
		n.failf("must be a whole number from %d to %d, and is %s", lowest, highest, describe(n.value))
		return 0, false
	}
	return value, true
}

// quantityWithin reads a number of bytes from lowest to highest, inclusive, which are
// quantities themselves.
func (n node) quantityWithin(lowest, highest string) (int64, bool) {
	text := ""
	switch value := n.value.(type) {
	case string:
		text = value
	case json.Number:
		text = value.String()
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Cmp(resource.MustParse(lowest)) < 0 || quantity.Cmp(resource.MustParse(highest)) > 0 {
		n.failf("must be a number of bytes from %s to %s, such as 200Mi, and is %s", lowest, highest, describe(n.value))
		return 0, false
	}
	return quantity.Value(), true
}

// duration reads a time with its unit.
func (n node) duration() (time.Duration, bool) {
	text, ok := n.value.(string)
	if number, isNumber := n.value.(json.Number); isNumber && number == "0" {
		return 0, true
	}
	value, err := time.ParseDuration(text)
	if !ok || err != nil {
		n.failf("must be a time with its unit, such as 90s, 5m or 36h, and is %s", describe(n.value))
		return 0, false
	}
	return value, true
}

// durationWithin reads a time from lowest to highest, inclusive.
func (n node) durationWithin(lowest, highest time.Duration) (time.Duration, bool) {
	value, ok := n.duration()
	if ok && (value < lowest || value > highest) {
		n.failf("must be from %s to %s, and is %s", short(lowest), short(highest), value)
		return 0, false
	}
	return value, ok
}

// short writes a time without the zeros at its end: 5m, not 5m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
