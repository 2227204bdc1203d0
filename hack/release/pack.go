// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// image is an image of the release.
type image struct {
	reference string // registry.example/team/stowage-scheduler:v1.2.3-kube1.36
	digest    string
	archive   string // the path of its OCI layout, whose name is that of the binary with .tar
}

// nameAndTag are without the registry.
func (i image) nameAndTag() string { return path.Base(i.reference) }

func (i image) name() string {
	name, _, _ := strings.Cut(i.nameAndTag(), ":")
	return name
}

func (i image) pinned() string { return i.reference + "@" + i.digest }

// pack writes all files of the release to its folder. The folder is complete, or it does not exist.
func (r release) pack(ctx context.Context, plugins []string, stdout io.Writer) error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.out), 0o755); err != nil {
		return err
	}
	final := r.out
	unfinished, err := os.MkdirTemp(filepath.Dir(final), ".unfinished-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unfinished)
	r.out = unfinished
	images, err := r.images()
	if err != nil {
		return err
	}
	if _, err := r.packPlugin(plugins); err != nil {
		return err
	}
	for _, write := range []func(context.Context, []image) error{
		r.packImages, r.packBinaries, r.packManifests, r.writeNotes, r.writeProvenance, r.writeSums,
	} {
		if err := write(ctx, images); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Chmod(unfinished, 0o755), os.Rename(unfinished, final)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, final)
	return err
}

// parts returns what make release builds, by a pattern of names: layouts and documents of images, named as in the release,
// and a folder of binaries for each platform.
func (r release) parts(pattern string) ([]string, error) {
	return filepath.Glob(filepath.Join(r.bin, "release", "parts", pattern))
}

// images reads the images of all archives, in the order of their references.
func (r release) images() (images []image, err error) {
	archives, err := r.parts("*.tar")
	if err != nil {
		return nil, err
	}
	for _, archive := range archives {
		i, err := readImage(archive)
		if err != nil {
			return nil, fmt.Errorf("read image %s: %w", archive, err)
		}
		if registry := path.Dir(i.reference); registry != r.registry {
			return nil, fmt.Errorf("image %s: its registry is %s, but -registry=%s: make release builds it", archive, registry, r.registry)
		}
		images = append(images, i)
	}
	if len(images) == 0 {
		return nil, errors.New("no images: make release builds them")
	}
	return images, nil
}

// readImage reads the index of an OCI layout.
func readImage(archive string) (image, error) {
	f, err := os.Open(archive)
	if err != nil {
		return image{}, err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if err != nil {
			return image{}, fmt.Errorf("find index.json: %w", err)
		}
		if header.Name != "index.json" {
			continue
		}
		var index struct {
			Manifests []struct {
				Digest      string            `json:"digest"`
				Annotations map[string]string `json:"annotations"`
			} `json:"manifests"`
		}
		if err := json.NewDecoder(r).Decode(&index); err != nil {
			return image{}, err
		}
		if len(index.Manifests) != 1 {
			return image{}, errors.New("its index must have one entry")
		}
		entry := index.Manifests[0]
		return image{entry.Annotations["org.opencontainers.image.ref.name"], entry.Digest, archive}, nil
	}
}

// packImages adds the layouts of images, their documents, and a list by reference and digest.
func (r release) packImages(_ context.Context, images []image) error {
	documents, err := r.parts("*.spdx.json")
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, i := range images {
		fmt.Fprintln(&list, i.pinned())
		documents = append(documents, i.archive)
	}
	for _, path := range documents {
		if err := os.Link(path, filepath.Join(r.out, filepath.Base(path))); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(r.out, "images.txt"), []byte(list.String()), 0o644)
}

// packBinaries adds an archive of the images' binaries for each platform.
func (r release) packBinaries(_ context.Context, images []image) error {
	platforms, err := r.parts("linux-*")
	if err != nil {
		return err
	}
	for _, folder := range platforms {
		files := []source{{"LICENSE", filepath.Join(r.source, "LICENSE"), 0o644}}
		for _, i := range images {
			name := strings.TrimSuffix(filepath.Base(i.archive), ".tar")
			files = append(files, source{name, filepath.Join(folder, name), 0o755})
		}
		file := fmt.Sprintf("stowage-%s-%s.tar.gz", r.version, filepath.Base(folder))
		if err := writeArchive(filepath.Join(r.out, file), writeTar, files, r.created); err != nil {
			return fmt.Errorf("pack the binaries for %s: %w", filepath.Base(folder), err)
		}
	}
	return nil
}

// files are the names of what is in the release by now, in order.
func (r release) files() ([]string, error) {
	entries, err := os.ReadDir(r.out)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// writeSums writes the file that sha256sum -c reads.
func (r release) writeSums(context.Context, []image) error {
	names, err := r.files()
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range names {
		hash, err := sum(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", hash, name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
