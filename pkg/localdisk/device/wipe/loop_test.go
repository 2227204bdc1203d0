// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/deadline"
)

// need skips a test that this machine cannot run.
func need(t testing.TB, tools ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
}

// sh runs a tool, and fails the test if the tool fails.
func sh(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// loop attaches a file to a loop device for the length of the test.
func loop(t testing.TB, file string, options ...string) string {
	t.Helper()
	need(t, "losetup")
	dev := sh(t, "losetup", append(append([]string{"--find", "--show"}, options...), file)...)
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
			t.Errorf("detach %s: %v\n%s", dev, err, out)
		}
	})
	return dev
}

// diskFolder returns a folder for disks, in memory if possible.
func diskFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "wipe-") //nolint:usetesting // in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// blank makes a sparse file of zeros.
func blank(t testing.TB, size int64) string {
	t.Helper()
	file := filepath.Join(diskFolder(t), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	return file
}

// dirty makes a file in which every byte is set.
func dirty(t *testing.T, size int64) string {
	t.Helper()
	file := filepath.Join(diskFolder(t), "disk")
	if err := os.WriteFile(file, bytes.Repeat([]byte{0xa5}, int(size)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// bytesOf reads a device as it is, past the page cache.
func bytesOf(t *testing.T, dev string) []byte {
	t.Helper()
	d, err := openDevice(dev, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	all := make([]byte, d.size)
	for at := int64(0); at < d.size; at += chunk {
		if _, err := d.ReadAt(all[at:min(at+chunk, d.size)], at); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func sum(t *testing.T, dev string) string { return fmt.Sprintf("%x", sha256.Sum256(bytesOf(t, dev))) }

func sizeOf(t testing.TB, dev string) int64 {
	t.Helper()
	d, err := openDevice(dev, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	return d.bytes
}

// target returns a target whose verification succeeds.
func target(t *testing.T, dev string, mode disk.Mode, command ...string) Target {
	t.Helper()
	m, err := Parse(command, mode)
	if err != nil {
		t.Fatal(err)
	}
	return Target{Device: dev, Bytes: sizeOf(t, dev), Mode: mode, Method: m, Verify: func(*os.File) error { return nil }}
}

// fifo makes a pipe by which a script reports that it runs. It returns its path, and a function
// that waits for a line from it.
func fifo(t *testing.T) (path string, line func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return path, func() string {
		if err := f.SetReadDeadline(time.Now().Add(deadline.Wait())); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 256)
		n, err := f.Read(buf)
		if err != nil {
			t.Errorf("wait for the script: %v", err)
		}
		return strings.TrimSpace(string(buf[:n]))
	}
}

// script writes an executable script.
func script(t *testing.T, path, body string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
