// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorder is a test that records how it fails.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Fatalf(format string, args ...any) {
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
}

func TestEnvironment(t *testing.T) { //nolint:paralleltest // it sets the environment
	for name, tc := range map[string]struct {
		soak, seed string
		want       int
		wantSeed   uint64 // 0: any
		wantErr    string
	}{
		"nothing is set: the short form":       {want: 1},
		"make soak":                            {soak: "1", want: 100},
		"off":                                  {soak: "false", want: 1},
		"a seed":                               {seed: "18446744073709551615", want: 1, wantSeed: 1<<64 - 1},
		"a strength that is no boolean":        {soak: "much", want: 1, wantErr: `STOWAGE_SOAK="much": must be a boolean`},
		"a seed that is no number":             {seed: "x", want: 1, wantErr: `STOWAGE_SEED="x": must be a number from 0 to 18446744073709551615`},
		"a negative seed: no number is signed": {seed: "-1", want: 1, wantErr: `STOWAGE_SEED="-1": must be a number from 0 to 18446744073709551615`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(SoakEnv, tc.soak)
			t.Setenv(SeedEnv, tc.seed)
			r := &recorder{}
			seed := Begin(r)
			if tc.wantSeed != 0 && seed != tc.wantSeed {
				t.Errorf("Begin() = %d, want %d", seed, tc.wantSeed)
			}
			if diff := cmp.Diff(tc.wantErr, r.failure); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
			if got := Scale(1, 100); got != tc.want {
				t.Errorf("Scale(1, 100) = %d, want %d", got, tc.want)
			}
		})
	}
}
