// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package soak has tests of hack/soak.sh.
package soak

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/testing/campaign"
)

// root is the top of the repository.
const root = "../.."

var row = regexp.MustCompile("(?m)^\\| (\\S+) `(Test\\w+)` \\|")

// TestPage: docs/soak.md has a row for each campaign, and no other.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/soak.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		rows[found[1]+"."+found[2]] = true
	}
	list, err := exec.CommandContext(t.Context(), filepath.Join(root, "hack/soak.sh"), "-list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"cmd", "pkg", "test"} {
		// Reading them makes a cached result of this test depend on them.
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, "_test.go") {
				_, err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Fields(string(list))
	if os.Geteuid() != 0 { // the script leaves out what needs root
		maps.DeleteFunc(rows, func(row string, _ bool) bool { return strings.HasPrefix(row, "test/e2e.") })
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("rows of docs/soak.md (-campaigns +rows):\n%s", diff)
	}
}

func TestEnvironmentOfCampaigns(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join(root, "hack/soak.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if want := campaign.SoakEnv + "=1"; !strings.Contains(string(script), want) {
		t.Errorf("hack/soak.sh does not set %s, which campaigns read", want)
	}
}
