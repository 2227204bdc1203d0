// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workflows checks the workflows of GitHub.
package workflows

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

// top is the repository.
const top = "../../"

// workflow has the checked fields of a workflow of GitHub.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Steps []struct {
			Uses string `json:"uses"`
			Run  string `json:"run"`
		} `json:"steps"`
	} `json:"jobs"`
}

var (
	pinnedAction = regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	makeTarget   = regexp.MustCompile(`\bmake ([a-z-]+)`)
	targetRule   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// TestWorkflows: workflows call targets that the Makefile has, and actions by their commit. Only single jobs may write.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	targets := map[string]bool{}
	for _, rule := range targetRule.FindAllStringSubmatch(string(read(t, top+"Makefile")), -1) {
		targets[rule[1]] = true
	}
	files, err := filepath.Glob(top + ".github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d workflows: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var w workflow
			if err := yaml.Unmarshal(read(t, file), &w); err != nil {
				t.Fatal(err)
			}
			if w.Permissions == nil {
				t.Error("permissions: must be set, since the default may write")
			}
			for right, access := range w.Permissions {
				if access != "read" {
					t.Errorf("permissions.%s: must be read; give a job what it writes", right)
				}
			}
			for name, job := range w.Jobs {
				for _, step := range job.Steps {
					if step.Uses != "" && !pinnedAction.MatchString(step.Uses) {
						t.Errorf("job %s: %s must be pinned by the 40 digits of a commit", name, step.Uses)
					}
					for _, target := range makeTarget.FindAllStringSubmatch(step.Run, -1) {
						if !targets[target[1]] {
							t.Errorf("job %s: make %s: the Makefile has no such target", name, target[1])
						}
					}
				}
			}
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
