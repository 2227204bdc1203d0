// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// reference is where users look fields up.
const reference = "../../../../docs/configuration.md"

func readReference(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestReferenceNamesEveryField: a field that is added is also documented, with
// its default in the same row.
func TestReferenceNamesEveryField(t *testing.T) {
	t.Parallel()
	text := readReference(t)
	for _, path := range fieldPaths("", reflect.TypeFor[VolumeTopologyArgs]()) {
		if !strings.Contains(text, "| `"+path+"` |") {
			t.Errorf("%s has no row for field %s", reference, path)
		}
	}

	defaulted := &VolumeTopologyArgs{}
	SetObjectDefaults_VolumeTopologyArgs(defaulted)
	for _, row := range []string{
		fmt.Sprintf("| `bindTimeoutSeconds` | integer | `%d` |", *defaulted.BindTimeoutSeconds),
		fmt.Sprintf("| `bindingMode` | string | `%s` |", defaulted.BindingMode),
		fmt.Sprintf("| `scoring.strategy` | string | `%s` |", defaulted.Scoring.Strategy),
		fmt.Sprintf("| `scoring.staticWeightPercent` | integer | `%d` |", *defaulted.Scoring.StaticWeightPercent),
	} {
		if !strings.Contains(text, row) {
			t.Errorf("%s has no row beginning %q", reference, row)
		}
	}
}

// fieldPaths are the paths of the fields that hold values, as users write them.
func fieldPaths(prefix string, structure reflect.Type) []string {
	var paths []string
	for field := range structure.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		path := prefix + name
		switch kind := field.Type.Kind(); {
		case name == "": // TypeMeta, inline
		case kind == reflect.Struct:
			paths = append(paths, fieldPaths(path+".", field.Type)...)
		case kind == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct:
			paths = append(append(paths, path), fieldPaths(path+"[].", field.Type.Elem())...)
		default:
			paths = append(paths, path)
		}
	}
	return paths
}

// TestReferenceExampleIsValid: what users copy works.
func TestReferenceExampleIsValid(t *testing.T) {
	t.Parallel()
	_, after, found := strings.Cut(readReference(t), "  - name: VolumeTopology\n    args:\n")
	example, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatalf("%s has no example of arguments", reference)
	}
	if _, err := DecodeArgs(&runtime.Unknown{Raw: []byte(example), ContentType: runtime.ContentTypeYAML}); err != nil {
		t.Errorf("the example of %s: %v", reference, err)
	}
}
