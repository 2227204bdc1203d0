// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLetters(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		name    string
		writers int
	}{
		"the pods of letters write":     {"letters", 1},
		"the pods of the next do not":   {"tenant", 0},
		"nor do those of another still": {"other", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := letters(test.name)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(set.Spec.Template.Spec.InitContainers); got != test.writers || set.Name != test.name {
				t.Errorf("StatefulSet %s has %d containers that write, want %s with %d", set.Name, got, test.name, test.writers)
			}
			if diff := cmp.Diff(set.Spec.Selector.MatchLabels, set.Spec.Template.Labels); diff != "" {
				t.Errorf("it does not select its pods (-selector +labels):\n%s", diff)
			}
			if got := set.Spec.Template.Spec.SchedulerName; got != stowage {
				t.Errorf("its pods are %q's to place, want %s", got, stowage)
			}
		})
	}
}

func TestRealImages(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"stowage-provisioner", "stowage-scheduler"} {
		if err := os.WriteFile(filepath.Join(folder, name+".tar"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := realImages(folder)
	if err == nil || !strings.Contains(err.Error(), `make images IMAGES="stowage-controller"`) {
		t.Errorf("without an image: %v, want an error that tells how to make it", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "stowage-controller.tar"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := realImages(folder); err != nil || len(got) != 3 {
		t.Errorf("with all images: %q, %v, want 3 archives", got, err)
	}
}
