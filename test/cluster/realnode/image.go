// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
)

// BusyboxImage is an image that every node has, and the one that holds the namespaces of pods. It
// has Debian's static busybox under the names of all its programs; without a command it runs
// nodeinit. Its tag is not "latest", so it is never pulled.
const BusyboxImage = "stowage.dev/test/busybox:dev"

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
	archive, err := pack([]entry{
		{tar.Header{Name: "manifest.json", Mode: 0o644}, manifest},
		{tar.Header{Name: "config.json", Mode: 0o644}, config},
		{tar.Header{Name: "layer.tar", Mode: 0o644}, layer},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, archive, 0o644)
}

func (i Image) layer() ([]byte, error) {
	entries := []entry{{header: tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}}}
	for name, source := range i.Files {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o755}, data})
	}
	for name, target := range i.Links {
		entries = append(entries, entry{header: tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(name, "/"), Linkname: target}})
	}
	return pack(entries)
}

// entry is a file of a tar archive; pack sets its size.
type entry struct {
	header tar.Header
	data   []byte
}

func pack(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.header.Size = int64(len(e.data))
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// busybox is BusyboxImage, of the machine's busybox.
func busybox(nodeinit string) (Image, error) {
	out, err := exec.Command(busyboxPath, "--list").Output()
	if err != nil {
		return Image{}, fmt.Errorf("list the programs of %s: %w", busyboxPath, err)
	}
	i := Image{
		Reference: BusyboxImage,
		Command:   []string{"/pause"},
		Files:     map[string]string{"/bin/busybox": busyboxPath, "/pause": nodeinit},
		Links:     map[string]string{},
	}
	for name := range strings.FieldsSeq(string(out)) {
		if name != "busybox" {
			i.Links[path.Join("/bin", name)] = "busybox"
		}
	}
	return i, nil
}
