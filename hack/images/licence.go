// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// licences finds the licences of modules in the module cache.
type licences struct{ cache string }

func newLicences(ctx context.Context) (licences, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return licences{}, fmt.Errorf("ask go for its module cache: %w", err)
	}
	return licences{cache: strings.TrimSpace(string(out))}, nil
}

// licenceFile is what files with a licence are called.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)

// enough of a file, in percent, must be licence text, so that one that only speaks of a
// licence counts for nothing. pkg.go.dev draws the line at the same place.
const enough = 75

// of is the SPDX expression for all licences in a module's own folder, or NOASSERTION.
func (l licences) of(m debug.Module) string {
	if m.Path == standard {
		return "BSD-3-Clause"
	}
	path, errPath := module.EscapePath(m.Path)
	version, errVersion := module.EscapeVersion(m.Version)
	if errPath != nil || errVersion != nil {
		return unknown
	}
	folder := filepath.Join(l.cache, path+"@"+version)
	entries, err := os.ReadDir(folder)
	if err != nil { // built from vendor/, or elsewhere
		return unknown
	}
	var found []string
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return unknown
		}
		names := recognize(text)
		if len(names) == 0 {
			return unknown // a licence without a known name is kept
		}
		found = append(found, names...)
	}
	if len(found) == 0 {
		return unknown
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " AND ")
}

// recognize names the licences that a file consists of.
func recognize(text []byte) []string {
	cover := licensecheck.Scan(text)
	if cover.Percent < enough {
		return nil
	}
	var names []string
	for _, match := range cover.Match {
		if !match.IsURL {
			names = append(names, match.ID)
		}
	}
	return names
}
