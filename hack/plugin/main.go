// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command plugin packs the kubectl plugin for users: an archive for each platform, and the manifest by which
// krew installs them. The same files make the same archives, byte for byte.
//
//	plugin -version v1.2.3 -created 1767225600 linux-amd64 windows-amd64
//
// Binaries are in bin/plugin, in a folder for each platform, and the archives are written beside these folders.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	p := packing{source: "."}
	var created int64
	flag.StringVar(&p.folder, "folder", "bin/plugin", "folder with the binaries and archives")
	flag.StringVar(&p.version, "version", "", "version of the plugin")
	flag.StringVar(&p.downloads, "downloads", "", "URL below which the archives are published, if they are")
	flag.Int64Var(&created, "created", 0, "time of all files, in seconds since 1970")
	flag.Parse()
	p.created = time.Unix(created, 0).UTC()
	if err := p.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

// packing is what all archives have in common.
type packing struct {
	// folder has the binaries and archives, source the sources.
	folder, source     string
	version, downloads string
	created            time.Time
}

// run packs the platforms, such as linux-amd64.
func (p *packing) run(platforms []string) error {
	if p.version == "" || len(platforms) == 0 {
		return errors.New("-version and at least one platform must be given")
	}
	var packed []archive
	for _, name := range platforms {
		a, err := p.pack(name)
		if err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		fmt.Println(filepath.Join(p.folder, a.file))
		packed = append(packed, a)
	}
	text, err := p.manifest(packed)
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	file := filepath.Join(p.folder, "stowage.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	fmt.Println(file)
	return nil
}

// archive is one that was written.
type archive struct {
	os, arch string
	file     string // its name
	binary   string // the name of the plugin in it
	sha256   string
}

// pack writes the archive of a platform: .zip for windows, where tar is not known everywhere.
func (p *packing) pack(platform string) (archive, error) {
	system, arch, ok := strings.Cut(platform, "-")
	if !ok {
		return archive{}, errors.New("must be OS-ARCHITECTURE")
	}
	a := archive{os: system, arch: arch, file: "kubectl-stowage-" + platform + ".tar.gz", binary: "kubectl-stowage"}
	completion, write := "kubectl_complete-stowage", writeTar
	if system == "windows" {
		a.file, a.binary = "kubectl-stowage-"+platform+".zip", "kubectl-stowage.exe"
		completion, write = "kubectl_complete-stowage.cmd", writeZip
	}
	files, err := readFiles([]source{
		{"LICENSE", filepath.Join(p.source, "LICENSE"), 0o644},
		{a.binary, filepath.Join(p.folder, platform, a.binary), 0o755},
		{completion, filepath.Join(p.source, "cmd", "kubectl-stowage", completion), 0o755},
	})
	if err != nil {
		return a, err
	}
	content, err := write(files, p.created)
	if err != nil {
		return a, err
	}
	a.sha256 = sum(content)
	return a, os.WriteFile(filepath.Join(p.folder, a.file), content, 0o644)
}
