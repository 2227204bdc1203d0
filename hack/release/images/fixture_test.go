// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

var (
	amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}
	arm64 = v1.Platform{OS: "linux", Architecture: "arm64"}
)

// newOptions returns options for images of binaries that consist of a header, for amd64 and arm64.
func newOptions(t *testing.T, names ...string) options {
	t.Helper()
	o := options{
		names: names, platforms: []v1.Platform{amd64}, bin: t.TempDir(), out: t.TempDir(),
		registry: repository, tag: "dev", version: "v1.2.3", revision: "0123abc", created: time.Unix(1_795_312_800, 0).UTC(),
	}
	for _, name := range names {
		for _, p := range []v1.Platform{amd64, arm64} {
			writeFile(t, o.binary(name, p), header(t, machines[p.Architecture], nil))
		}
	}
	return o
}

// header is an ELF file with program headers and nothing else.
func header(t *testing.T, machine elf.Machine, parts []elf.Prog64) []byte {
	t.Helper()
	h := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(parts)),
	}
	var out bytes.Buffer
	for _, part := range []any{h, parts} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// entries are the files of a packed folder by name.
func entries(t *testing.T, r io.Reader) map[string]*tar.Header {
	t.Helper()
	all := map[string]*tar.Header{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = h
	}
}

// filesOf returns the files that a container has, by path.
func filesOf(t *testing.T, image v1.Image) map[string]*tar.Header {
	t.Helper()
	r := mutate.Extract(image)
	defer r.Close()
	return entries(t, r)
}

// unpack reads an archive as an OCI layout and returns its only entry.
func unpack(t *testing.T, path string) (v1.ImageIndex, v1.Descriptor) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	folder := t.TempDir()
	for archive := tar.NewReader(f); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(folder, h.Name), data)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 1 {
		t.Fatalf("%s has %d entries, want 1", path, len(m.Manifests))
	}
	return index, m.Manifests[0]
}
