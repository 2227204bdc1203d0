// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/requirements"
)

func TestRun(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		packages bool
		args     []string
		want     string
		fails    string
	}{
		"packages of two uses": {packages: true, args: []string{"disks", "e2e"},
			want: strings.Join(requirements.Packages(requirements.Disks, requirements.E2E), " ") + "\n"},
		"no use":      {fails: "usage: requirements [-packages] USE..., of [browser disks e2e nodes]"},
		"another use": {args: []string{"e2e", "disk"}, fails: `"disk": must be one of [browser disks e2e nodes]`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			fails := ""
			if err := run(&out, test.packages, test.args); err != nil {
				fails = err.Error()
			}
			if diff := cmp.Diff([]string{test.want, test.fails}, []string{out.String(), fails}); diff != "" {
				t.Errorf("output and error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBeforeBuilding: on a machine that has Go, make and the usual tools but none of the
// programs that end-to-end tests need, make fails with one message that names
// all packages, and builds nothing.
func TestBeforeBuilding(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, name := range []string{"make", "go", "git", "bash", "env", "awk", "sed"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("%s is not installed", name)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		args []string
		use  requirements.Use
	}{
		"end-to-end tests": {[]string{"e2e"}, requirements.E2E},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := deadline.Context(t.Context())
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(bin, "make"), test.args...)
			cmd.Dir = filepath.Join("..", "..")
			cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
				return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "MAKE")
			}), "PATH="+bin)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("make succeeded:\n%s", out)
			}
			// What is at an absolute path is there or not, whatever PATH is.
			for _, name := range requirements.Packages(test.use) {
				if name != "busybox-static" && name != "containernetworking-plugins" && !strings.Contains(string(out), " "+name) {
					t.Errorf("%s is not named", name)
				}
			}
			if strings.Count(string(out), "apt-get install") != 1 || strings.Contains(string(out), "building") {
				t.Errorf("want one message, and nothing built, got:\n%s", out)
			}
		})
	}
}
