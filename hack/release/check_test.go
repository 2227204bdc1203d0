// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	r := newCheckout(t)
	for name, version := range map[string]string{
		"a release": "v1.2.3", "before a release": "v2.0.0-rc.1",
	} {
		t.Run(name, func(t *testing.T) {
			r.version = version
			if err := r.check(t.Context()); err != nil {
				t.Error(err)
			}
			git(t, r, "tag", "--annotate", "--message=tag", version)
			if err := r.check(t.Context()); err != nil {
				t.Errorf("tagged: %v", err)
			}
		})
	}
}

// TestCheckRefuses: each error says what is wrong and what to do.
func TestCheckRefuses(t *testing.T) {
	replaced := func(old, with string) func(*testing.T, release) {
		return func(t *testing.T, r release) {
			write(t, filepath.Join(r.source, "CHANGELOG.md"), []byte(strings.Replace(changelog, old, with, 1)))
			commit(t, r)
		}
	}
	tests := map[string]struct {
		version string
		change  func(*testing.T, release)
		want    string
	}{
		"a version without v": {version: "1.2.3", want: "VERSION=1.2.3: must be a semantic version such as v1.2.3"},
		"a short version":     {version: "v1.2", want: "VERSION=v1.2: must be a semantic version"},
		"what git describes":  {version: "0123abc-dirty", want: "VERSION=0123abc-dirty: must be a semantic version"},
		"build metadata, which tags of images cannot have": {version: "v1.2.3+a", want: "VERSION=v1.2.3+a: must be a semantic version"},
		"a changed file": {change: func(t *testing.T, r release) {
			write(t, filepath.Join(r.source, "LICENSE"), []byte("mine"))
		}, want: `the checkout must be clean, but git status shows " M LICENSE": commit or remove its changes`},
		"a new file": {change: func(t *testing.T, r release) {
			git(t, r, "config", "status.showUntrackedFiles", "no")
			write(t, filepath.Join(r.source, "manifests", "new.yaml"), nil)
		}, want: `git status shows "?? manifests/new.yaml"`},
		"the tag of another commit": {change: func(t *testing.T, r release) {
			git(t, r, "tag", "v1.2.3")
			git(t, r, "commit", "--quiet", "--allow-empty", "--message=later")
		}, want: "git checkout v1.2.3, or choose another version"},
		"another architecture": {change: func(t *testing.T, _ release) {
			t.Setenv("GOAMD64", "v3")
		}, want: "GOAMD64='v3' changes binaries: unset GOAMD64, or run go env -u GOAMD64"},
		"a version that the changelog does not have": {version: "v1.2.4", want: `CHANGELOG.md: must have the heading "## [1.2.4] - YYYY-MM-DD"`},
		"changes without a date":                     {change: replaced(" - 2026-01-31", ""), want: `must have the heading "## [1.2.3] - YYYY-MM-DD"`},
		"no changes":                                 {change: replaced(changelog[strings.Index(changelog, "### Fixed"):strings.Index(changelog, "## [1.2.2]")], ""), want: "CHANGELOG.md: [1.2.3] must name changes"},
		"nothing unreleased":                         {version: "v2.0.0-rc.1", change: replaced("## [Unreleased]\n", ""), want: `must have the heading "## [Unreleased]"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newCheckout(t)
			if test.version != "" {
				r.version = test.version
			}
			if test.change != nil {
				test.change(t, r)
			}
			if err := r.check(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
		})
	}
}

// TestChanges: the section of the version, without links that lead nowhere on the page of a release.
func TestChanges(t *testing.T) {
	r := newCheckout(t)
	for version, want := range map[string]string{
		"v1.2.3":      "### Fixed\n\n- **Scheduler.** A fault (docs/faults.md, [report](https://example.com/1)).\n",
		"v1.2.2":      "- An earlier one.\n",
		"v2.0.0-rc.1": "### Added\n\n- What comes next.\n",
	} {
		r.version = version
		got, err := r.changes()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
}

// TestArguments: errors of the command line name what is allowed.
func TestArguments(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no command":         {nil, "name a command: check, pack and plugin are allowed"},
		"an unknown command": {[]string{"ship", "-version=v1"}, `unknown command "ship": check, pack and plugin are allowed`},
		"no version":         {[]string{"check"}, "-version: must be given"},
		"an unknown flag":    {[]string{"check", "-tag=v1"}, "flag provided but not defined: -tag"},
	} {
		if err := run(t.Context(), test.args, t.Output()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want %q in it", name, err, test.want)
		}
	}
}
