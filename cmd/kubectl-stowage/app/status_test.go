// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"stowage.dev/stowage/manifests"
	"stowage.dev/stowage/pkg/testing/commands"
)

// TestStatusOutput: what status prints of clusters with the rights and policies of the manifests, and of one of
// which the user may read little.
func TestStatusOutput(t *testing.T) {
	for name, installed := range map[string]bool{"healthy": true, "faults": true, "rights": false} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "status", name))); err != nil {
				t.Fatal(err)
			}
			if installed {
				for _, part := range []string{"scheduler", "provisioner", "controller/base"} {
					files, err := fs.Sub(manifests.Files, part)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.CopyFS(filepath.Join(folder, "manifests", part), files); err != nil {
						t.Fatal(err)
					}
				}
			}
			golden(t, "status/"+name, "status", "--from", folder)
		})
	}
}

// TestStatusInput: wrong input gets one line.
func TestStatusInput(t *testing.T) {
	commands.Run(t, newTestCommand, map[string]commands.Case{
		"an argument":              {Args: []string{"status", "all"}, Err: "unknown command"},
		"a format":                 {Args: []string{"status", "--output=wide"}, Err: `--output: must be one of table, json, yaml, and is "wide"`},
		"waiting for files":        {Args: []string{"status", "--wait", "--from=testdata/status/healthy"}, Err: "--wait: files do not change"},
		"a negative time":          {Args: []string{"status", "--wait=-1s"}, Err: "--wait: must be more than 0, and is -1s"},
		"no such file":             {Args: []string{"status", "--from=/does/not/exist"}, Err: "/does/not/exist"},
		"a dump of files":          {Args: []string{"sysdump", "--from=testdata/status/healthy"}, Err: "--from: sysdump reads a cluster"},
		"a name of no archive":     {Args: []string{"sysdump", "--output-file=dump.zip"}, Err: "--output-file: must end in .tar.gz or .tgz"},
		"a file that exists":       {Args: []string{"sysdump", "--output-file=" + file(t, "dump.tar.gz", "")}, Err: "exists: name another file"},
		"a folder that is missing": {Args: []string{"sysdump", "--output-file=/does/not/exist/dump.tgz"}, Err: "--output-file: open /does/not/exist"},
		"a size of logs":           {Args: []string{"sysdump", "--log-bytes=0"}, Err: `--log-bytes: must be a size from 1 to 1Gi, such as 4Mi, and is "0"`},
	})
}
