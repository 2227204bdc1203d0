// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"regexp"
	"runtime"
	"testing"
	"time"

	"stowage.dev/stowage/test/perf/source"
)

func TestDescribe(t *testing.T) {
	s, err := source.Describe(t.Context(), "a command")
	if err != nil {
		t.Fatal(err)
	}
	if s.Command != "a command" || s.Go != runtime.Version() || s.CPUs < 1 || time.Since(s.Time) > time.Minute {
		t.Errorf("got %+v", s)
	}
	if want := regexp.MustCompile(`^v1\.\d+\.\d+$`); !want.MatchString(s.Kubernetes) {
		t.Errorf("Kubernetes is %q", s.Kubernetes)
	}
	if want := regexp.MustCompile(`^[0-9a-f]{7,}(-dirty)?$|^v\d+\.\d+`); !want.MatchString(s.Version) {
		t.Errorf("the version is %q", s.Version)
	}
	if runtime.GOOS == "linux" && (s.Memory <= 0 || s.System == "") {
		t.Errorf("memory is %d bytes, the system %q", s.Memory, s.System)
	}
}
