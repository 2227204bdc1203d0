// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"regexp"
	"runtime"
	"testing"

	"stowage.dev/stowage/test/perf/source"
)

func TestDescribe(t *testing.T) {
	config, err := source.Describe(t.Context(), "a command")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range config {
		got[c.Key] = string(c.Value)
	}
	want := map[string]string{
		"command": `^a command$`, "go": "^" + regexp.QuoteMeta(runtime.Version()) + "$", "cpus": `^[1-9]\d*$`,
		"measured": `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, "kubernetes": `^v1\.\d+\.\d+$`,
		"commit": `^[0-9a-f]{7,}(-dirty)?$|^v\d+\.\d+`, "memory": `^\d+\.\d GiB$`, "kernel": `^Linux .`, "load": `^\d+\.\d$`,
	}
	for key, pattern := range want {
		if !regexp.MustCompile(pattern).MatchString(got[key]) {
			t.Errorf("%s is %q, want %s", key, got[key], pattern)
		}
	}
}
