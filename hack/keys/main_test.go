// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPage compares docs/keys.md with the source.
func TestPage(t *testing.T) {
	t.Parallel()
	want, err := write("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("run hack/update-keys.sh and commit what it writes (-source +page):\n%s", diff)
	}
}
