// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChart compares the files of the chart with what is generated.
func TestChart(t *testing.T) {
	t.Parallel()
	const chart = "../../manifests/charts/stowage"
	files, err := generate(chart)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("run hack/update-chart.sh and commit what it writes (-generated +%s):\n%s", name, diff)
		}
	}
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values, schema string
		// want are in the schema, or in the error if it is set.
		want []string
		err  string
	}{
		"a comment": {
			values: "# One\n# two.\na: 1", schema: `{"properties": {"a": {"type": "integer", "description": "Old."}}}`, want: []string{`"description": "One two."`},
		},
		"the comment of a value, not that of a section": {
			values: "# Section.\n\n# Value.\na: 1", schema: `{"properties": {"a": {}}}`, want: []string{`"description": "Value."`},
		},
		"values within a value, and in a map": {
			values: "# A.\na:\n  # B.\n  b:\n    any:\n      # C.\n      c: <1>", schema: `{"properties": {"a": {"properties": {"b": {"patternProperties": {"": {"description": "D.", "properties": {"c": {}}}}}}}}}`,
			want: []string{`"description": "A."`, `"description": "B."`, `"description": "C."`},
		},
		"keys of the user have none": {values: "# A.\na: {b: c}", schema: `{"properties": {"a": {"type": "object"}}}`, want: []string{`"description": "A."`}},
		"a definition's": {
			values: "a: 1", schema: `{"$defs": {"d": {"description": "D."}}, "properties": {"a": {"$ref": "#/$defs/d"}}}`, want: []string{`"$ref": "#/$defs/d"`},
		},
		"no comment":                      {values: "a: 1 # beside it", schema: `{"properties": {"a": {}}}`, err: "a: must have a description"},
		"no comment on a value within":    {values: "# A.\na: {b: 1}", schema: `{"properties": {"a": {"properties": {"b": {}}}}}`, err: "a.b: must have a description"},
		"no default and no description":   {values: "{}", schema: `{"properties": {"a": {"description": "A.", "items": {"properties": {"b": {}}}}}}`, err: "a.b: must have a description"},
		"a definition without one":        {values: "{}", schema: `{"$defs": {"d": {"properties": {"e": {}}}}}`, err: "$defs.d.e: must have a description"},
		"a value that the schema rejects": {values: "# A.\na: 1", schema: `{"properties": {"b": {"description": "B."}}}`, err: "values.yaml: a: must be in values.schema.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chart := t.TempDir()
			for name, text := range map[string]string{"values.yaml": test.values, "values.schema.json": test.schema} {
				if err := os.WriteFile(filepath.Join(chart, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r, err := read(chart)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.describedSchema()
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("schema\n%s\nwant %s in it", got, want)
				}
			}
		})
	}
}
