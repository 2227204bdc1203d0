// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// TestForAnotherMachine: a binary that Go builds for arm64 becomes an image for arm64. The binary is
// this tool, which compiles faster than those of cmd/.
func TestForAnotherMachine(t *testing.T) {
	t.Parallel()
	o := options{names: []string{"stowage-images"}, platforms: []v1.Platform{arm64}, bin: t.TempDir(), out: t.TempDir(), tag: "dev"}
	path := o.binary("stowage-images", arm64)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, archive := written(t, o)
	index, top := unpack(t, archive)
	image, err := index.Image(top.Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Platform(); !got.Equals(arm64) {
		t.Errorf("the image says it is for %v, want %v", got, arm64)
	}
	binary, err := elf.NewFile(bytes.NewReader(contentOf(t, image, "usr/local/bin/stowage-images")))
	if err != nil {
		t.Fatal(err)
	}
	if binary.Machine != elf.EM_AARCH64 {
		t.Errorf("the binary is for %v, want %v", binary.Machine, elf.EM_AARCH64)
	}
}

// contentOf returns the content of a file in a container.
func contentOf(t *testing.T, image v1.Image, name string) []byte {
	t.Helper()
	r := mutate.Extract(image)
	defer r.Close()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err != nil {
			t.Fatalf("find %s: %v", name, err)
		}
		if h.Name == name {
			data, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
	}
}
