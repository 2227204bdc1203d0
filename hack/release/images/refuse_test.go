// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"os"
	"strings"
	"testing"
)

// TestRefused: each error names the argument and the problem.
func TestRefused(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	writeFile(t, bin+"/linux-amd64/foreign", header(t, elf.EM_AARCH64, nil))
	writeFile(t, bin+"/linux-amd64/dynamic", header(t, elf.EM_X86_64, []elf.Prog64{{Type: uint32(elf.PT_INTERP)}}))
	writeFile(t, bin+"/linux-amd64/script", []byte("#!/bin/sh\nexit 0\n"))
	tests := map[string]struct {
		args []string
		want string
	}{
		"nothing to do":                     {nil, "images write, images sbom or images push"},
		"an unknown command":                {[]string{"build"}, `unknown command "build": write, sbom and push are allowed`},
		"no image":                          {[]string{"write"}, "name the images to make"},
		"a name that leads elsewhere":       {[]string{"write", "../x"}, `image "../x": a name has small letters`},
		"another system":                    {[]string{"write", "-platforms=darwin/arm64", "a"}, `"darwin/arm64" is not one of linux/{amd64,arm64,`},
		"a variant":                         {[]string{"write", "-platforms=linux/arm/v7", "a"}, `"linux/arm/v7" is not one of`},
		"an image for a system of plugins":  {[]string{"sbom", "-platforms=darwin/arm64", "kubectl-a", "b"}, `"darwin/arm64" is not one of linux/{amd64,arm64,`},
		"a plugin for another system":       {[]string{"sbom", "-platforms=plan9/amd64", "kubectl-a"}, `"plan9/amd64" is not one of linux or darwin or windows/{amd64,arm64,`},
		"an image of a plugin":              {[]string{"write", "kubectl-a"}, `image "kubectl-a": a plugin of kubectl is in no image`},
		"a platform named twice":            {[]string{"write", "-platforms=linux/amd64,linux/amd64", "a"}, "linux/amd64 is named twice"},
		"a time that is none":               {[]string{"write", "-created=yesterday", "a"}, "-created=yesterday: must be a whole number of seconds"},
		"a tag with a space":                {[]string{"write", "-tag=a b", "a"}, "-tag=a b: must be a tag"},
		"no tag":                            {[]string{"write", "-tag=", "a"}, "-tag=: must be a tag"},
		"a base that is no reference":       {[]string{"write", "-base=A B", "a"}, "-base=A B: must be a reference"},
		"a place to push to without a host": {[]string{"write", "-push=http://x", "a"}, "-push=http://x: must be a registry and a prefix"},
		"a registry with a scheme":          {[]string{"write", "-registry=http://x", "a"}, "-registry=http://x: must be a registry and a prefix"},
		"archives without a registry":       {[]string{"push", "a.tar"}, "-to=: must be a registry and a prefix"},
		"nothing to push":                   {[]string{"push", "-to=registry.example/team"}, "name the archives to push"},
		"an archive that is missing":        {[]string{"push", "-to=registry.example/team", bin + "/absent.tar"}, "absent.tar: no such file"},
		"a file that is no archive":         {[]string{"push", "-to=registry.example/team", bin + "/linux-amd64/script"}, "linux-amd64/script: unexpected EOF"},
		"a binary that is missing":          {[]string{"write", "-bin=" + bin, "-out=" + bin + "/out", "absent"}, "linux-amd64/absent is missing: make images builds it"},
		"a binary for another machine":      {[]string{"write", "-bin=" + bin, "-out=" + bin + "/out", "foreign"}, "is for EM_AARCH64, but linux/amd64 needs EM_X86_64"},
		"a binary that needs libraries":     {[]string{"write", "-bin=" + bin, "-out=" + bin + "/out", "dynamic"}, "is linked dynamically: build it with CGO_ENABLED=0"},
		"a script":                          {[]string{"write", "-bin=" + bin, "-out=" + bin + "/out", "script"}, "linux-amd64/script: bad magic number"},
		"documents have no tag":             {[]string{"sbom", "-tag=dev", "a"}, "flag provided but not defined: -tag"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(t.Context(), tt.args, &out)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
			if out.Len() > 0 {
				t.Errorf("printed %q besides the error", out.String())
			}
		})
	}
	if _, err := os.Stat(bin + "/out"); err == nil {
		t.Error("a folder was made for images that were refused")
	}
}
