// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/page"
)

func benchmark() Benchmark {
	return Benchmark{Name: "local", Parts: []string{"latency", "wiping"}, Numbers: []Number{{"disks", "disks of each kind", 50}, {"rounds", "rounds", 3}}}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	type seen struct {
		Command, Out  string
		Disks, Rounds int
		Parts         []string
	}
	for name, tc := range map[string]struct {
		args string
		want seen
		err  string
	}{
		"nothing is all, with the defaults": {want: seen{Command: "make bench-local", Disks: 50, Rounds: 3, Parts: []string{"latency", "wiping"}}},
		"flags are part of the command": {
			args: "-only wiping -rounds 1 -out f.json",
			want: seen{Command: "make bench-local ONLY=wiping ROUNDS=1", Out: "f.json", Disks: 50, Rounds: 1, Parts: []string{"wiping"}},
		},
		"an unknown part": {args: "-only wipe", err: `-only: unknown part "wipe", allowed are latency, wiping`},
		"less than none":  {args: "-disks -1", err: "-disks must be at least 1, or 0 for the default of 50, got -1"},
		"an argument":     {args: "more", err: `unexpected argument "more"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := benchmark().parse(strings.Fields(tc.args))
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := seen{r.Command, r.Out, r.Number("disks"), r.Number("rounds"), r.only}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRenderMeasuresNothing(t *testing.T) {
	t.Parallel()
	b, rendered := benchmark(), ""
	b.Measure = func(context.Context, *Run) error { t.Error("measured"); return nil }
	b.Render = func(path string) error { rendered = path; return nil }
	if err := b.run(t.Context(), []string{"-render", "f.json"}); err != nil || rendered != "f.json" {
		t.Errorf("rendered %q, %v", rendered, err)
	}
}

func TestPartsAreStoredOneByOne(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "f.json")
	b, did := benchmark(), []string{}
	b.Measure = func(ctx context.Context, r *Run) error {
		for _, name := range b.Parts {
			do := func(_ context.Context, c page.Circumstances) error {
				did = append(did, "measured "+name+" by "+c.Source.Command)
				return nil
			}
			store := func(path string) error { did = append(did, "stored "+filepath.Base(path)); return nil }
			if err := r.Part(ctx, name, do, store); err != nil {
				return err
			}
		}
		return nil
	}
	if err := b.run(t.Context(), []string{"-only", "wiping", "-out", out}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"measured wiping by make bench-local ONLY=wiping", "stored f.json"}, did); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
