// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recording is a line of testdata/corpus.jsonl.
type recording struct {
	Template string `json:"template"`
	Text     string `json:"text"`
	YAML     bool   `json:"yaml"`
	// Error is the class of Jinja2's exception, or "".
	Error string `json:"error"`
}

func readCorpus(t testing.TB) []recording {
	t.Helper()
	data, err := os.ReadFile("testdata/corpus.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []recording
	for line := range bytes.Lines(data) {
		var r recording
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		corpus = append(corpus, r)
	}
	return corpus
}

// variables returns the variables of the corpus.
func variables(t testing.TB) map[string]any {
	t.Helper()
	data, err := os.ReadFile("testdata/variables.json")
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var values map[string]any
	if err := decoder.Decode(&values); err != nil {
		t.Fatal(err)
	}
	return withNumbers(values).(map[string]any)
}

// withNumbers replaces each json.Number by an int64 or a float64.
func withNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = withNumbers(v[k])
		}
	}
	return value
}

// Outcomes of a template that are errors.
const (
	syntaxError    = "syntax error"
	executionError = "error"
)

// outcome returns a text, marked if it is YAML, or where the template fails.
func outcome(template string, scope Scope) string {
	parsed, err := Parse(template)
	if err != nil {
		return syntaxError
	}
	result, err := parsed.Execute(scope)
	switch {
	case err != nil:
		return executionError
	case result.YAML:
		return "yaml: " + result.Text
	}
	return "text: " + result.Text
}

// recorded returns the outcome with Jinja2.
func (r recording) outcome() string {
	switch {
	case r.Error == "TemplateSyntaxError" || r.Error == "TemplateAssertionError":
		return syntaxError
	case r.Error != "":
		return executionError
	case r.YAML:
		return "yaml: " + r.Text
	}
	return "text: " + r.Text
}

// TestConformance requires Jinja2's answers, but for the differences. An error may be found by
// Parse already.
func TestConformance(t *testing.T) {
	t.Parallel()
	scope := Scope{Variables: variables(t)}
	type listing struct{ want, why string }
	listed := map[string]listing{}
	for _, d := range differences {
		for template, want := range d.outcomes {
			listed[template] = listing{want, d.why}
		}
	}
	corpus := readCorpus(t)
	if len(corpus) < 1000 {
		t.Errorf("the corpus has %d templates only", len(corpus))
	}
	for _, r := range corpus {
		scope.Budget = DefaultBudget()
		got, want := outcome(r.Template, scope), r.outcome()
		if d, ok := listed[r.Template]; ok {
			delete(listed, r.Template)
			if want == d.want {
				t.Errorf("%q: Jinja2 has %q too, though %s", r.Template, want, d.why)
			}
			want = d.want
		}
		if got != want && (got != syntaxError || want != executionError) {
			t.Errorf("%q: got %q, want %q", r.Template, got, want)
		}
	}
	if len(listed) > 0 {
		t.Errorf("differences that are not in the corpus: %q", slices.Sorted(maps.Keys(listed)))
	}
}

// TestRecording requires that Jinja2, if it is installed, still answers as it was recorded.
func TestRecording(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import jinja2; assert jinja2.__version__.startswith('3.1.')").Run(); err != nil {
		t.Skip("no python3 with Jinja2 3.1")
	}
	now, err := exec.CommandContext(t.Context(), "python3", "testdata/record.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	then, err := os.ReadFile("testdata/corpus.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(then), "\n"), strings.Split(string(now), "\n")); diff != "" {
		t.Errorf("testdata/record.py prints something else (-recorded +now):\n%s", diff)
	}
}
