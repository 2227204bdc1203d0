// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"time"
)

// Images that every node has. Their tags are not "latest", so they are never pulled.
const (
	// BusyboxImage has Debian's static busybox under the names of all its programs; it runs sh.
	BusyboxImage = "stowage.dev/test/busybox:dev"
	pauseImage   = "stowage.dev/test/pause:dev"
)

// busyboxPath is a statically linked program.
const busyboxPath = "/usr/bin/busybox"

// Image is a container image of one layer.
type Image struct {
	// Reference is the image's name with a tag.
	Reference string
	// Command is what containers run.
	Command []string
	// Files are paths on this machine by absolute path in the image. All become executable.
	Files map[string]string
	// Links are targets of symbolic links by absolute path in the image.
	Links map[string]string
}

// Write writes an archive in docker save's format, which containerd imports, to file.
func (i Image) Write(file string) error {
	layer, err := i.layer()
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Reference, err)
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Cmd": i.Command, "Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{i.Reference}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for _, part := range []struct {
		name string
		data []byte
	}{{"manifest.json", manifest}, {"config.json", config}, {"layer.tar", layer}} {
		if err := addFile(w, part.name, part.data, 0o644); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}

func (i Image) layer() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: time.Unix(0, 0)}); err != nil {
		return nil, err
	}
	for name, source := range i.Files {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		if err := addFile(w, strings.TrimPrefix(name, "/"), data, 0o755); err != nil {
			return nil, err
		}
	}
	for name, target := range i.Links {
		h := &tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(name, "/"), Linkname: target, ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func addFile(w *tar.Writer, name string, data []byte, mode int64) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data)), ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	_, err := io.Copy(w, bytes.NewReader(data))
	return err
}

// busybox is an image of the machine's busybox.
func busybox() (Image, error) {
	out, err := exec.Command(busyboxPath, "--list").Output()
	if err != nil {
		return Image{}, fmt.Errorf("list the programs of %s: %w", busyboxPath, err)
	}
	i := Image{
		Reference: BusyboxImage,
		Command:   []string{"/bin/sh"},
		Files:     map[string]string{"/bin/busybox": busyboxPath},
		Links:     map[string]string{},
	}
	for name := range strings.FieldsSeq(string(out)) {
		if name != "busybox" {
			i.Links[path.Join("/bin", name)] = "busybox"
		}
	}
	return i, nil
}

// pause is an image of nodeinit, which holds a pod's namespaces.
func pause(nodeinit string) Image {
	return Image{Reference: pauseImage, Command: []string{"/pause"}, Files: map[string]string{"/pause": nodeinit}}
}
