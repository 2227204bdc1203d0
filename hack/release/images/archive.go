// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer packs files in their order, with one modification time, so that the same files
// make the same layer.
func layer(files []file, at time.Time, kind types.MediaType) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		if err := f.pack(w, at); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(kind), tarball.WithCompressedCaching)
}

func (f file) pack(w *tar.Writer, at time.Time) error {
	h := &tar.Header{
		Name: f.path, Mode: int64(f.mode.Perm()), Uid: f.user, Gid: f.user,
		Size: int64(len(f.data)), Typeflag: tar.TypeReg, ModTime: at, Format: tar.FormatUSTAR,
	}
	if strings.HasSuffix(f.path, "/") {
		h.Typeflag = tar.TypeDir
	}
	if f.mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(f.data)
	return err
}

// archive writes an OCI image layout into one file. With a single platform the file
// also has the manifest.json that `docker load` of versions without OCI archives reads. The
// file is complete, or it does not exist.
func (o options) archive(b artifact) (string, error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(o.out, "."+b.name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	content := filepath.Join(folder, "content")
	if err := b.layout(content); err != nil {
		return "", err
	}
	unfinished, path := filepath.Join(folder, "tar"), filepath.Join(o.out, b.name+".tar")
	if err := packFolder(unfinished, content, o.created); err != nil {
		return "", err
	}
	return path, os.Rename(unfinished, path)
}

// referenceAnnotation is the key of the image's reference in an OCI layout.
const referenceAnnotation = "org.opencontainers.image.ref.name"

// layout writes the folder that is packed.
func (b artifact) layout(folder string) error {
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: b.top(),
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"io.containerd.image.name": b.reference,
			referenceAnnotation:        b.reference,
		}},
	})
	if _, err := layout.Write(folder, index); err != nil {
		return err
	}
	if b.index != nil {
		return nil
	}
	m, err := b.images[0].Manifest()
	if err != nil {
		return err
	}
	var layers []string
	for _, l := range m.Layers {
		layers = append(layers, blob(l.Digest))
	}
	text, err := json.Marshal([]map[string]any{{
		"Config": blob(m.Config.Digest), "RepoTags": []string{b.reference}, "Layers": layers,
	}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "manifest.json"), text, 0o644)
}

func blob(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// packFolder packs a folder's files in the order of their names, with one modification time.
func packFolder(path, folder string, at time.Time) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	source := os.DirFS(folder)
	err = fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		return file{path: name, mode: 0o644, data: data}.pack(w, at)
	})
	return errors.Join(err, w.Close(), f.Close())
}
