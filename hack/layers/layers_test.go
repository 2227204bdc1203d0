// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSourceTree checks the source of the product against the table.
func TestSourceTree(t *testing.T) {
	t.Parallel()
	files, err := ReadTree(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range Check(files, Packages(), Bans()) {
		t.Error(breach)
	}
}

// TestDepsOfLayerZero checks all dependencies of layer 0 against the table.
func TestDepsOfLayerZero(t *testing.T) {
	t.Parallel()
	// The packages found by reading the tree, not by a pattern: `go test` then runs this
	// test again whenever one of their files changes.
	files, err := ReadTree(root(t))
	if err != nil {
		t.Fatal(err)
	}
	c := checker{packages: Packages()}
	args := []string{"list", "-deps"}
	for _, f := range files {
		if _, layer, ok := c.find(f.Package()); ok && layer == Pure && !f.Test() {
			args = append(args, "./"+f.Package())
		}
	}
	if len(args) == 2 {
		t.Skip("layer 0 has no packages")
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir = root(t)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list -deps: %v\n%s", err, stderr.Bytes())
	}
	for _, breach := range CheckDeps(strings.Fields(string(out))) {
		t.Error(breach)
	}
}

// root is the folder of the module. Tests run in the folder of their package.
func root(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..")
	for _, name := range []string{"go.mod", "go.sum"} {
		// Opening them makes cached test results depend on them.
		if _, err := os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
