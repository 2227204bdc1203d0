// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzExecute requires that no template panics, changes its variables, or outruns its budget: in
// bytes exactly, in time by far more than a budget of so many steps needs.
func FuzzExecute(f *testing.F) {
	for i, r := range readCorpus(f) {
		if i%10 == 0 {
			f.Add(r.Template)
		}
	}
	before := variables(f)
	const deadline = 10 * time.Second
	f.Fuzz(func(t *testing.T, source string) {
		start := time.Now()
		parsed, err := Parse(source)
		if err != nil {
			requirePosition(t, err)
			return
		}
		values := runtime.DeepCopyJSON(before)
		budget := &Budget{Steps: 100_000, Bytes: 1 << 20, Depth: 100}
		result, err := parsed.Execute(Scope{
			Variables: values, Budget: budget,
			Functions: map[string]Function{"get_pvc": func(arguments []any) (any, error) { return arguments, nil }},
		})
		if err != nil {
			requirePosition(t, err)
		}
		if len(result.Text) > 1<<20 || budget.Steps < 0 || budget.Bytes < 0 {
			t.Errorf("%d bytes of text, and a budget of %+v afterwards", len(result.Text), *budget)
		}
		if took := time.Since(start); took > deadline {
			t.Errorf("took %s", took)
		}
		if diff := cmp.Diff(before, values); diff != "" {
			t.Errorf("the variables were changed:\n%s", diff)
		}
	})
}

func requirePosition(t *testing.T, err error) {
	t.Helper()
	if e := (*Error)(nil); !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Message == "" {
		t.Errorf("the error %#v has no position or message", err)
	}
}
