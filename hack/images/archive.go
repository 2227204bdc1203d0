// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// artifact is an image by its name, for all platforms.
type artifact struct {
	name      string
	reference string // stowage.dev/stowage-scheduler:dev
	images    []v1.Image
	index     v1.ImageIndex // nil with one platform
}

// artifact makes the image of every platform, and the index if there are several.
func (o order) artifact(ctx context.Context, image string) (artifact, error) {
	b := artifact{name: image, reference: home + "/" + image + ":" + o.tag}
	var members []mutate.IndexAddendum
	for _, p := range o.platforms {
		one, err := o.image(ctx, image, p)
		if err != nil {
			return b, err
		}
		b.images = append(b.images, one)
		members = append(members, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: &p}})
	}
	if len(b.images) > 1 {
		b.index = mutate.AppendManifests(empty.Index, members...)
	}
	return b, nil
}

// top is what the reference means: the index, or the only image.
func (b artifact) top() mutate.Appendable {
	if b.index != nil {
		return b.index
	}
	return b.images[0]
}

func (b artifact) digest() (v1.Hash, error) { return b.top().Digest() }

// size is that of all layers, packed, in bytes.
func (b artifact) size() (int64, error) {
	var sum int64
	for _, image := range b.images {
		m, err := image.Manifest()
		if err != nil {
			return 0, err
		}
		for _, l := range m.Layers {
			sum += l.Size
		}
	}
	return sum, nil
}

// archive writes an OCI image layout into one file. With a single platform the file
// also has what `docker load` of engines before OCI archives looks for. The file appears
// as a whole, or not at all.
func (o order) archive(b artifact) (string, error) {
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

// layout writes the folder that is packed.
func (b artifact) layout(folder string) error {
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: b.top(),
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"io.containerd.image.name":          b.reference,
			"org.opencontainers.image.ref.name": b.reference,
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

// packFolder packs a folder's files in the order of their names, all of one time.
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
		return packFile(w, source, name, at)
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}

func packFile(w *tar.Writer, source fs.FS, name string, at time.Time) error {
	f, err := source.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = w.WriteHeader(&tar.Header{
		Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: info.Size(), ModTime: at, Format: tar.FormatUSTAR,
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
