// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDescribe: each routine has a description, and no description is of another name.
func TestDescribe(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		routines map[string]routine
		meanings map[string]string
	}{
		"filters":           {filters, filterMeanings},
		"tests":             {tests, testMeanings},
		"functions":         {globals, functionMeanings},
		"methods of text":   {stringMethods, stringMeanings},
		"methods of dicts":  {dictMethods, dictMeanings},
		"methods of lists":  {listMethods, listMeanings},
		"methods of a loop": {loopMethods, loopMeanings},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(slices.Sorted(maps.Keys(of.routines)), slices.Sorted(maps.Keys(of.meanings))); diff != "" {
				t.Errorf("names of routines (-code +descriptions):\n%s", diff)
			}
			for _, r := range described(of.routines, of.meanings) {
				if r.Meaning == "" {
					t.Errorf("%s has an empty description", r.Name)
				}
			}
		})
	}
}

// TestLoopIsDescribed: each attribute of the variable loop has a description, and no description is of
// another name.
func TestLoopIsDescribed(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("evaluator.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "\nfunc (l *loop) attribute(")
	body, _, _ = strings.Cut(body, "\n}\n")
	var names []string
	for _, found := range regexp.MustCompile(`case "([a-z0-9]+)":`).FindAllStringSubmatch(body, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(loopAttributeMeanings))); diff != "" {
		t.Errorf("attributes of loop (-code +descriptions):\n%s", diff)
	}
}

// TestDescribedDefaults: what descriptions state of defaults and aliases is what routines do.
func TestDescribedDefaults(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`{{ x|default }}|{{ ''|default('a', true) }}|{{ x|d('b') }}`:                 "|a|b",
		`{{ 'x'|int }}|{{ 'x'|float }}|{{ '0x1f'|int(base=16) }}`:                    "0|0.0|31",
		`{{ 1.5|round }}|{{ 1.2|round(method='ceil') }}`:                             "2.0|2.0",
		`{{ 'a\nb'|indent }}|{{ [1, 2]|sum }}|{{ range(3)|list|tojson }}`:            "a\n    b|3|[0, 1, 2]",
		`{{ "<'&>"|tojson }}|{{ "it's"|tobash }}`:                                    `"\u003c\u0027\u0026\u003e"|'it'"'"'s'`,
		`{{ {'b': 1, 'a': 2}|dictsort|tojson }}|{{ {}.get('a')|tojson }}`:            `[["a", 2], ["b", 1]]|null`,
		`{{ 'a-b'.partition('-')|tojson }}|{{ 'abc'.find('z') }}|{{ '7'.zfill(3) }}`: `["a", "-", "b"]|-1|007`,
	} {
		parsed, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		result, err := parsed.Execute(Scope{})
		if err != nil || result.Text != want {
			t.Errorf("%s: %q, %v; want %q", source, result.Text, err, want)
		}
	}
}
