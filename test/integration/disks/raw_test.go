// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// planted is user data on a device.
const planted = "left by the first user of this device"

// plantAt are the offsets of user data on a device of 16 MiB: in its first and last MiB, and
// between.
var plantAt = []int64{4096, 1<<20 + 512, 8<<20 + 4096, 16<<20 - 512}

// plant writes a text to some offsets of a device.
func plant(t *testing.T, device, text string) {
	t.Helper()
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range plantAt {
		if _, err := f.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// found reports whether a text is anywhere on a device, bypassing the page cache.
func found(t *testing.T, device, text string) bool {
	t.Helper()
	return bytes.Contains(direct(t, device), []byte(text))
}

// blank reports whether a device reads as zeros, bypassing the page cache.
func blank(t *testing.T, device string) bool {
	t.Helper()
	return len(bytes.Trim(direct(t, device), "\x00")) == 0
}

// direct reads a device, bypassing the page cache.
func direct(t *testing.T, device string) []byte {
	t.Helper()
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buffer, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(buffer) }()
	var all []byte
	for {
		n, err := f.Read(buffer)
		all = append(all, buffer[:n]...)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
