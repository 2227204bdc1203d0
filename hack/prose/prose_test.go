// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package prose

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// checked are the kinds of files that are read.
var checked = []string{".go", ".md", ".sh", ".yaml", ".yml", ".tpl", "Makefile", "Dockerfile"}

// TestSourceTree checks every file that git lists, except this package, which has the idioms.
func TestSourceTree(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skipf("this is not a git checkout: %v", err)
	}
	files := 0
	for path := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		if strings.HasPrefix(path, "hack/prose/") || !slices.ContainsFunc(checked, func(end string) bool { return strings.HasSuffix(path, end) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		files++
		for _, problem := range Check(path, text) {
			t.Error(problem)
		}
	}
	if files < 100 {
		t.Errorf("%d files were read, want all of the project", files)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"plain":              {"// Reserve holds the volume until it expires.\n", nil},
		"within a word":      {"somebodyElse, graveyard\n", nil},
		"a line":             {"a\nThe volume is made anew.\n", []string{`f.go:2: "anew": write again`}},
		"on two lines":       {"// The claim is given\n// back.\n", []string{`f.go:1: "given\n// back": write release, return, undo`}},
		"several words":      {"The disk has not\n\t// been looked\n\t// at.\n", []string{`f.go:2: "looked\n\t// at": write inspected, read, evaluated`}},
		"capital letters":    {"Somebody\n", []string{`f.go:1: "Somebody": write name who acts, or use the passive`}},
		"twice, and another": {"shelf anew\nshelf\n", []string{`f.go:1: "anew": write again`, `f.go:1: "shelf": write pool`, `f.go:2: "shelf": write pool`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Check("f.go", []byte(test.text))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
