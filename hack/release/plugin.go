// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pluginArchive is an archive of the kubectl plugin for a platform.
type pluginArchive struct {
	os, arch string
	file     string // its name
	binary   string // the name of the plugin in it
	sha256   string
}

// packPlugin writes to out an archive of the plugin for each platform, such as linux-amd64, and the manifest by which
// krew installs them. It returns the names of these files.
func (r release) packPlugin(platforms []string) ([]string, error) {
	if len(platforms) == 0 {
		return nil, errors.New("name the platforms of the plugin, such as linux-amd64")
	}
	var packed []pluginArchive
	var names []string
	for _, platform := range platforms {
		a, err := r.packPlatform(platform)
		if err != nil {
			return nil, fmt.Errorf("pack the plugin for %s: %w", platform, err)
		}
		packed, names = append(packed, a), append(names, a.file)
	}
	text, err := r.krewManifest(packed)
	if err != nil {
		return nil, fmt.Errorf("write the manifest for krew: %w", err)
	}
	const name = "stowage.yaml" // krew requires the name of the plugin
	return append(names, name), os.WriteFile(filepath.Join(r.out, name), text, 0o644)
}

// packPlatform writes the archive of a platform: .zip for windows, where tar is not known everywhere.
func (r release) packPlatform(platform string) (pluginArchive, error) {
	system, arch, ok := strings.Cut(platform, "-")
	if !ok {
		return pluginArchive{}, errors.New("must be OS-ARCHITECTURE")
	}
	a := pluginArchive{os: system, arch: arch, file: "kubectl-stowage-" + platform + ".tar.gz", binary: "kubectl-stowage"}
	completion, write := "kubectl_complete-stowage", writeTar
	if system == "windows" {
		a.file, a.binary = "kubectl-stowage-"+platform+".zip", "kubectl-stowage.exe"
		completion, write = "kubectl_complete-stowage.cmd", writeZip
	}
	path := filepath.Join(r.out, a.file)
	err := writeArchive(path, write, []source{
		{"LICENSE", filepath.Join(r.source, "LICENSE"), 0o644},
		{a.binary, filepath.Join(r.bin, "plugin", platform, a.binary), 0o755},
		{completion, filepath.Join(r.source, "cmd", "kubectl-stowage", completion), 0o755},
	}, r.created)
	if err != nil {
		return a, err
	}
	a.sha256, err = sum(path)
	return a, err
}
