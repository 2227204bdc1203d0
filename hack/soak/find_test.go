// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	settings "stowage.dev/stowage/pkg/testing/campaign"
)

// root is the top of the repository.
const root = "../.."

func TestFind(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, body := range map[string]string{
		"pkg/a/a_test.go": "func TestLong(t *testing.T) { seed := campaign.Begin(t); _ = seed }\nfunc TestShort(t *testing.T) { begin(t) }\nfunc helper(t *testing.T) { campaign.Begin(t) }\n",
		"pkg/a/a.go":      "func TestNot(t *testing.T) { campaign.Begin(t) }\n",
		"test/b_test.go":  "func TestInside(t *testing.T) { t.Run(\"x\", func(t *testing.T) { campaign.Begin(t) }) }\n",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("package p\n\n"+body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := find(folder, "pkg", "test")
	if err != nil {
		t.Fatal(err)
	}
	want := []campaign{{"pkg/a", "TestLong"}, {"test", "TestInside"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(campaign{})); diff != "" {
		t.Errorf("campaigns (-want +got):\n%s", diff)
	}
}

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
	all, err := find(root, "cmd", "pkg", "test")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range all {
		want = append(want, c.String())
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("rows of docs/soak.md (-campaigns +rows):\n%s", diff)
	}
}

func TestEnvironmentOfCampaigns(t *testing.T) {
	t.Parallel()
	if soakEnv != settings.SoakEnv {
		t.Errorf("soak sets %s, and campaigns read %s", soakEnv, settings.SoakEnv)
	}
}
