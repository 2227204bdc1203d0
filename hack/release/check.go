// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// check returns an error if no release of this version can be made of the checkout.
func (r release) check(ctx context.Context) error {
	if !isVersion(r.version) {
		return fmt.Errorf("VERSION=%s: must be a semantic version such as v1.2.3 or, before it, v1.2.3-rc.1", r.version)
	}
	for _, check := range []func(context.Context) error{r.checkTree, r.checkTag, r.checkGo} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	_, err := r.changes()
	return err
}

// checkTree returns an error if the checkout has changes, which would be in the release, but not in its commit.
func (r release) checkTree(ctx context.Context) error {
	changes, err := r.output(ctx, "git", "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return err
	}
	if first, _, _ := strings.Cut(changes, "\n"); first != "" {
		return fmt.Errorf("the checkout must be clean, but git status shows %q: commit or remove its changes", first)
	}
	return nil
}

// checkTag returns an error if the version's tag exists and is another commit than the checkout.
func (r release) checkTag(ctx context.Context) error {
	head, err := r.output(ctx, "git", "rev-parse", "--verify", "HEAD")
	if err != nil {
		return err
	}
	tagged, err := r.output(ctx, "git", "for-each-ref", "--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)", "refs/tags/"+r.version)
	if err != nil {
		return err
	}
	if tagged != "" && tagged != head {
		return fmt.Errorf("VERSION=%s: the tag is commit %.12s, but the checkout is %.12s: git checkout %s, or choose another version", r.version, tagged, head, r.version)
	}
	return nil
}

// checkGo returns an error if a setting of Go would change binaries.
func (r release) checkGo(ctx context.Context) error {
	for _, name := range []string{"GOEXPERIMENT", "GOAMD64", "GOARM64", "GOFIPS140"} {
		changed, err := r.output(ctx, "go", "env", "-changed", name)
		if err != nil {
			return err
		}
		if changed != "" {
			return fmt.Errorf("%s changes binaries: unset %s, or run go env -u %s", changed, name, name)
		}
	}
	return nil
}

var (
	anyHeading   = regexp.MustCompile(`(?m)^## `)
	relativeLink = regexp.MustCompile(`\[([^\]]+)\]\((?:[^):]+)\)`)
)

// changes is the section of the changelog about the version: [Unreleased] before a release.
func (r release) changes() (string, error) {
	changelog, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	version, date, form := strings.TrimPrefix(r.version, "v"), ` - \d{4}-\d{2}-\d{2}`, " - YYYY-MM-DD"
	if semver.Prerelease(r.version) != "" {
		version, date, form = "Unreleased", "", ""
	}
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(version) + `\]` + date + `\n`).FindIndex(changelog)
	if heading == nil {
		return "", fmt.Errorf(`CHANGELOG.md: must have the heading "## [%s]%s": date the changes of the release`, version, form)
	}
	section := changelog[heading[1]:]
	if next := anyHeading.FindIndex(section); next != nil {
		section = section[:next[0]]
	}
	if len(bytes.TrimSpace(section)) == 0 {
		return "", fmt.Errorf("CHANGELOG.md: [%s] must name changes", version)
	}
	// Links to files of the repository lead nowhere on the page of a release.
	return string(relativeLink.ReplaceAll(bytes.TrimSpace(section), []byte("$1"))) + "\n", nil
}

// output runs a command in the checkout and returns what it prints, without the last line end.
func (r release) output(ctx context.Context, name string, args ...string) (string, error) {
	var out, faults bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.source, &out, &faults
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, bytes.TrimSpace(faults.Bytes()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
