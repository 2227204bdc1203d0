// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference compares the pages that describe configurations with the types that
// they describe: a page has a table that begins with field, type and default, in which
// every field of the type has a row, and no other, with its default.
package reference

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// header begins the table.
const header = "| field | type | default |"

// Page is a page on a configuration.
type Page struct {
	// Path of the page, relative to the folder of the test.
	Path string
	// Defaulted points to a versioned configuration that has its defaults and nothing
	// else.
	Defaulted any
}

// Check fails the test for each field whose row is missing or has another default, and
// for each row that is of no field.
func (p Page) Check(t testing.TB) {
	t.Helper()
	for _, fault := range faults(Read(t, p.Path), p.Defaulted) {
		t.Errorf("%s: %s", p.Path, fault)
	}
}

// Read is a file's text.
func Read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Example is what users copy from a page: the text that follows the given words, in or before
// a block of code, to the end of the block.
func Example(t testing.TB, path, behind string) string {
	t.Helper()
	_, text, found := strings.Cut(Read(t, path), behind)
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatalf("%s has no example behind %q", path, behind)
	}
	return text
}

// faults are the differences of the page from the type.
func faults(text string, defaulted any) []string {
	documented, found := rows(text)
	if !found {
		return []string{"no table begins with " + header}
	}
	var list []string
	fields(reflect.ValueOf(defaulted).Elem(), "", func(path string, value reflect.Value) {
		got, ok := documented[path]
		delete(documented, path)
		want := shown(value)
		switch {
		case !ok:
			list = append(list, "no row for field "+path)
		case want != "" && got != want:
			list = append(list, fmt.Sprintf("the default of %s is %s, not %s", path, want, got))
		case want == "" && strings.HasPrefix(got, "`"):
			list = append(list, fmt.Sprintf("%s has no default, but the page says %s", path, got))
		}
	})
	for _, path := range slices.Sorted(maps.Keys(documented)) {
		list = append(list, "a row for "+path+", which is no field")
	}
	return list
}

// rows are the defaults that the table shows, by field.
func rows(text string) (defaults map[string]string, found bool) {
	_, table, found := strings.Cut(text, header)
	_, table, _ = strings.Cut(table, "\n")
	defaults = map[string]string{}
	for line := range strings.Lines(table) {
		if strings.TrimSpace(line) == "" {
			break
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(cells[1], " `") {
			continue // the rule below the header
		}
		defaults[strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[3])
	}
	return defaults, found
}

// fields calls f with the fields that hold values, by their paths as users write them.
// Those of list elements have the zero Value.
func fields(structure reflect.Value, prefix string, f func(path string, value reflect.Value)) {
	for field, value := range structure.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // TypeMeta, inline
			continue
		}
		path, inner := prefix+name, field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
			if value = value.Elem(); !value.IsValid() && inner.Kind() == reflect.Struct {
				value = reflect.Zero(inner)
			}
		}
		switch {
		case inner.Kind() == reflect.Struct && inner != reflect.TypeFor[metav1.Duration]():
			fields(value, path+".", f)
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct:
			f(path, value)
			fields(reflect.Zero(inner.Elem()), path+"[].", func(path string, _ reflect.Value) { f(path, reflect.Value{}) })
		default:
			f(path, value)
		}
	}
}

// shown is how a page shows a default; "" where there is none, which each page states in
// its own words. Numbers and booleans that are no pointers have 0 and false.
func shown(value reflect.Value) string {
	if !value.IsValid() {
		return ""
	}
	switch value.Kind() {
	case reflect.String, reflect.Slice, reflect.Map, reflect.Struct:
		if value.IsZero() {
			return ""
		}
	}
	if duration, ok := reflect.TypeAssert[metav1.Duration](value); ok {
		return "`" + duration.Duration.String() + "`"
	}
	return fmt.Sprintf("`%v`", value.Interface())
}
