// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPlatforms: no package of the plugin is for Linux only. It only reads imports, which takes seconds; make plugin
// compiles, which takes minutes.
func TestPlatforms(t *testing.T) {
	for _, platform := range []string{"linux", "darwin", "windows"} {
		t.Run(platform, func(t *testing.T) {
			var faults bytes.Buffer
			cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/kubectl-stowage")
			cmd.Dir, cmd.Env, cmd.Stderr = "../..", append(os.Environ(), "GOOS="+platform, "GOARCH=amd64", "CGO_ENABLED=0"), &faults
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("the plugin imports a package that has no files for %s: %v\n%s", platform, err, &faults)
			}
			// They open devices and mounts, and a constraint in one of their files could hide that.
			if packages := strings.Fields(string(out)); slices.ContainsFunc(packages, func(name string) bool {
				return strings.HasPrefix(name, "stowage.dev/stowage/pkg/localdisk/device")
			}) {
				t.Error("the plugin imports pkg/localdisk/device, which is for nodes")
			}
		})
	}
}
