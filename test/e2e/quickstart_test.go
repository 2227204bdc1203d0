// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/test/e2e/frame"
)

// TestQuickStart runs the README's own lines on an empty cluster with Helm and a registry, with
// the registry's name instead of the example's.
func TestQuickStart(t *testing.T) {
	frame.Parallel(t)
	helm := buildHelm(t)
	s := &empty{}
	s.Env = frame.NewOn(t, frame.Options{Begin: s.addNode})
	r := newRegistry(s)
	lines := strings.ReplaceAll(quickStart(t), "registry.example/", r.address+"/")
	cmd := exec.CommandContext(s.Context, "bash", "-euxo", "pipefail", "-c", lines)
	cmd.Dir = top
	cmd.Env = append(userEnv(s), "PATH="+strings.Join([]string{filepath.Dir(frame.Binaries().Node.Kubectl), filepath.Dir(helm), os.Getenv("PATH")}, ":"),
		"SSL_CERT_DIR="+r.authorities, "ARCHIVES="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.rolledOut(r.address+"/team", "v0")
	s.useVolume("first", 3)
	if report := s.kubectl("get", "localdiskreports"); !strings.Contains(report, "one") {
		t.Errorf("kubectl get localdiskreports does not show node one:\n%s", report)
	}
}

// quickStart are the README's commands for an own cluster.
func quickStart(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\nOn your own cluster")
	_, block, opened := strings.Cut(after, "\n```\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !found || !opened || !closed || !strings.Contains(block, "registry.example/") {
		t.Fatalf("the README has no commands for an own cluster any more, but %q", block)
	}
	if n := strings.Count(strings.ReplaceAll(block, "\\\n", ""), "\n") + 1; n > 4 {
		t.Errorf("it takes %d commands to install, should be under five:\n%s", n, block)
	}
	return block
}
