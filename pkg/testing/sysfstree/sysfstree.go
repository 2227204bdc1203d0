// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sysfstree unpacks trees of sysfs from text archives (txtar). A file in an archive is an
// attribute of a device, below sys/devices, or a file of proc.
package sysfstree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Read reads an archive.
func Read(t testing.TB, file string) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// Unpack writes the files of an archive into a new folder, with the links to devices that sysfs
// has, and returns the folder.
func Unpack(t testing.TB, archive *txtar.Archive) string {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "proc/swaps"), []byte("Filename\tType\tSize\tUsed\tPriority\n"))
	link(t, filepath.Join(root, "sys/devices/virtual/dmi/id"), filepath.Join(root, "sys/class/dmi/id"))
	for _, file := range archive.Files {
		write(t, filepath.Join(root, file.Name), file.Data)
		device := filepath.Join(root, filepath.Dir(file.Name))
		switch {
		case !strings.HasPrefix(file.Name, "sys/devices/"):
		case filepath.Base(file.Name) == "size":
			link(t, device, filepath.Join(root, "sys/class/block", filepath.Base(device)))
		case filepath.Base(file.Name) == "dev":
			link(t, device, filepath.Join(root, "sys/dev/block", strings.TrimSpace(string(file.Data))))
		}
	}
	return root
}

func write(t testing.TB, file string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}
