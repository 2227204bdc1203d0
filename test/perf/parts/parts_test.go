// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/perf/figures"
)

func benchmark() Benchmark {
	part := func(name string, quick bool) Part {
		return Part{Name: name, Prefixes: []string{name}, Quick: quick, Measure: func(context.Context, *Run) (figures.Set, error) {
			return figures.Set{figures.Line(name+"/arm=a", 1, figures.Value{Value: 2, Unit: "sec"})}, nil
		}}
	}
	return Benchmark{
		Name: "bench-local", Only: "ONLY", Parts: []Part{part("latency", true), part("wiping", false)},
		Numbers: []Number{{"disks", "disks of each kind", 50, 0}, {"rounds", "rounds", 3, 1}},
	}
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
			args: "-only wiping -rounds 1 -out f.txt",
			want: seen{Command: "make bench-local ONLY=wiping ROUNDS=1", Out: "f.txt", Disks: 50, Rounds: 1, Parts: []string{"wiping"}},
		},
		"the quick set is not stored": {args: "-quick -out f.txt", want: seen{Command: "make bench-local", Disks: 50, Rounds: 1, Parts: []string{"latency"}}},
		"an unknown part":             {args: "-only wipe", err: `-only: unknown part "wipe", allowed are latency, wiping`},
		"less than none":              {args: "-disks -1", err: "-disks must be at least 1, or 0 for the default of 50, got -1"},
		"an argument":                 {args: "more", err: `unexpected argument "more"`},
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
			got := seen{Command: r.command, Out: r.out, Disks: r.Number("disks"), Rounds: r.Number("rounds")}
			for _, p := range r.parts {
				got.Parts = append(got.Parts, p.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestPartsAreStoredOneByOne: what was not measured stays, with its own configuration.
func TestPartsAreStoredOneByOne(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "f.txt")
	for _, args := range []string{"-only wiping", "-only latency -rounds 1", "-only wiping -rounds 2"} {
		if err := benchmark().run(t.Context(), append(strings.Fields(args), "-out", out)); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := figures.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range stored {
		got[string(r.Name)] = r.GetConfig("command")
	}
	want := map[string]string{"wiping/arm=a": "make bench-local ONLY=wiping ROUNDS=2", "latency/arm=a": "make bench-local ONLY=latency ROUNDS=1"}
	if diff := cmp.Diff(want, got); diff != "" || len(stored) != 2 {
		t.Errorf("-want +got:\n%s", diff)
	}
}
