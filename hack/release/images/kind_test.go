// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

// TestKind: kind's own types have the fields of the configurations of docs/kind.md, and the scheduler
// is built for the minor of kind's default nodes.
func TestKind(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/kind.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, block := range strings.Split(string(page), "\n```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```\n")
		if !strings.HasPrefix(block, "apiVersion: kind.x-k8s.io/v1alpha4\n") {
			continue
		}
		found++
		var cluster v1alpha4.Cluster
		if err := yaml.UnmarshalStrict([]byte(block), &cluster); err != nil {
			t.Errorf("%v, in\n%s", err, block)
		}
		for _, node := range cluster.Nodes {
			if node.Role != v1alpha4.ControlPlaneRole && node.Role != v1alpha4.WorkerRole {
				t.Errorf("kind has no role %q", node.Role)
			}
		}
	}
	if found != 2 {
		t.Errorf("the page has %d configurations of kind, want 2", found)
	}
	image, _, _ := strings.Cut(defaults.Image, "@")
	_, version, _ := strings.Cut(image, ":")
	minor := strings.TrimPrefix(semver.MajorMinor(version), "v")
	if _, err := os.Stat(filepath.Join("../../../pkg/kubecompat", minor)); err != nil {
		t.Errorf("kind makes nodes of %s: %v", image, err)
	}
}
