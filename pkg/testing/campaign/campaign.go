// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package campaign gives long tests two strengths. A campaign repeats random or crowded
// situations, and finds more the longer it runs. `make soak` runs every campaign in full
// strength; `make test` runs a short form, which is large enough to fail on the faults that the
// campaign exists for. docs/soak.md lists the campaigns with their full strength.
package campaign

import (
	"os"
	"strconv"
	"testing"
	"time"
)

const (
	// SoakEnv is the environment variable that selects full strength, if it is true.
	SoakEnv = "STOWAGE_SOAK"
	// SeedEnv is the environment variable with the seed of random choices, to repeat a run.
	SeedEnv = "STOWAGE_SEED"
)

// Begin marks a test as a campaign, which is how `make soak` finds it. It returns the seed of the
// test's random choices: SeedEnv, or a new one. The test's log has the strength and the seed.
func Begin(t testing.TB) (seed uint64) {
	t.Helper()
	if _, err := full(); err != nil {
		t.Fatalf("%s=%q: must be a boolean", SoakEnv, os.Getenv(SoakEnv))
	}
	seed = uint64(time.Now().UnixNano())
	if text := os.Getenv(SeedEnv); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s=%q: must be a number from 0 to 18446744073709551615", SeedEnv, text)
		}
	}
	t.Logf("campaign in %s; repeat it with %s=%d", Scale("its short form", "full strength"), SeedEnv, seed)
	return seed
}

// Scale returns the value for the strength of this run.
func Scale[T any](short, strong T) T {
	if is, _ := full(); is {
		return strong
	}
	return short
}

// full reports whether campaigns run in full strength.
func full() (bool, error) {
	text := os.Getenv(SoakEnv)
	if text == "" {
		return false, nil
	}
	return strconv.ParseBool(text)
}
