// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// packManifests adds the chart, the kustomize folders, and the objects of the default overlay. All name the release's images by
// digest.
func (r release) packManifests(ctx context.Context, images []image) error {
	copied, err := os.MkdirTemp("", "stowage-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	files, err := r.copyManifests(ctx, copied)
	if err != nil {
		return fmt.Errorf("copy manifests: %w", err)
	}
	manifests := filepath.Join(copied, "manifests")
	if err := r.packChart(ctx, filepath.Join(manifests, "charts", "stowage"), images); err != nil {
		return fmt.Errorf("pack the chart: %w", err)
	}
	if err := r.packFolders(ctx, copied, files, images); err != nil {
		return fmt.Errorf("pack the kustomize folders: %w", err)
	}
	objects, err := r.output(ctx, r.kustomize, "build", filepath.Join(manifests, "overlays", "default"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "stowage-default-"+r.version+".yaml"), []byte(objects+"\n"), 0o644)
}

// copyManifests copies the tracked files of manifests and returns their names.
func (r release) copyManifests(ctx context.Context, to string) ([]string, error) {
	list, err := r.output(ctx, "git", "ls-files", "-z", "manifests")
	if err != nil {
		return nil, err
	}
	files := strings.Split(strings.TrimRight(list, "\x00"), "\x00")
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// packChart changes a copy of the chart and packs it. Helm takes the modification times of files over.
func (r release) packChart(ctx context.Context, chart string, images []image) error {
	for file, form := range map[string]string{"values.yaml": "  registry: %s\n", "README.md": "| `image.registry` | string | `\"%s\"` |"} {
		if err := replaceOnce(filepath.Join(chart, file), fmt.Sprintf(form, defaultRegistry), fmt.Sprintf(form, r.registry)); err != nil {
			return err
		}
	}
	digests := map[string]string{}
	for _, i := range images {
		digests[i.nameAndTag()] = i.digest
	}
	text, err := yaml.Marshal(digests)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(chart, "digests.yaml"), text, 0o644); err != nil {
		return err
	}
	if err := filepath.WalkDir(chart, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, r.created, r.created))
	}); err != nil {
		return err
	}
	version := strings.TrimPrefix(r.version, "v")
	_, err = r.output(ctx, r.helm, "package", chart, "--version", version, "--app-version", r.version, "--destination", r.out)
	return err
}

// packFolders changes the images of copied manifests and packs all but the chart. The tag of the scheduler is that of the
// newest minor, as in the repository.
func (r release) packFolders(ctx context.Context, copied string, files []string, images []image) error {
	folder := filepath.Join(copied, "manifests", "images")
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		return err
	}
	var component struct {
		Images []struct {
			Name string `json:"name"`
		} `json:"images"`
	}
	if err := yaml.Unmarshal(text, &component); err != nil {
		return err
	}
	newest := map[string]image{}
	for _, i := range images {
		newest[i.name()] = i
	}
	args := []string{"edit", "set", "image"}
	for _, entry := range component.Images {
		i, ok := newest[entry.Name]
		if !ok {
			return fmt.Errorf("manifests/images has image %s, which the release has not", entry.Name)
		}
		args = append(args, i.name()+"="+i.pinned())
	}
	edit := exec.CommandContext(ctx, r.kustomize, args...)
	edit.Dir = folder
	if out, err := edit.CombinedOutput(); err != nil {
		return fmt.Errorf("kustomize edit set image: %w: %s", err, out)
	}
	sources := []source{{"LICENSE", filepath.Join(r.source, "LICENSE"), 0o644}}
	for _, name := range files {
		if !strings.HasPrefix(name, "manifests/charts/") && filepath.Ext(name) != ".go" {
			sources = append(sources, source{name, filepath.Join(copied, name), 0o644})
		}
	}
	return writeArchive(filepath.Join(r.out, "stowage-manifests-"+r.version+".tar.gz"), writeTar, sources, r.created)
}

// replaceOnce replaces a text that a file must have once.
func replaceOnce(path, text, with string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(data, []byte(text)); n != 1 {
		return fmt.Errorf("%s has %q %d times, want once", path, text, n)
	}
	return os.WriteFile(path, bytes.Replace(data, []byte(text), []byte(with), 1), 0o644)
}
