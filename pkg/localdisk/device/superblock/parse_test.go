// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package superblock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// mkfs are the commands that make file systems, of kubelet and of administrators.
var mkfs = map[string][]string{
	"ext2":                     {"mkfs.ext2", "-q", "-F"},
	"ext3":                     {"mkfs.ext3", "-q", "-F"},
	"ext4 as kubelet makes it": {"mkfs.ext4", "-q", "-F", "-m0"},
	"ext4 without checksums":   {"mkfs.ext4", "-q", "-F", "-O", "^metadata_csum"},
	"ext4 without a journal":   {"mkfs.ext4", "-q", "-F", "-O", "^has_journal"},
	"xfs":                      {"mkfs.xfs", "-q", "-f"},
	"xfs, version 4":           {"mkfs.xfs", "-q", "-f", "-m", "crc=0"},
	"xfs, sectors of 4 KiB":    {"mkfs.xfs", "-q", "-f", "-s", "size=4096"},
	"btrfs":                    {"mkfs.btrfs", "-q", "-f"},
	"btrfs with SHA-256":       {"mkfs.btrfs", "-q", "-f", "--csum", "sha256"},
	"btrfs with xxhash":        {"mkfs.btrfs", "-q", "-f", "--csum", "xxhash"},
}

// TestParse compares Parse with blkid, for new file systems and after any
// byte of their superblocks is damaged: Parse must not name what blkid does not find.
func TestParse(t *testing.T) {
	for name, command := range mkfs {
		t.Run(name, func(t *testing.T) {
			file := image(t, 320<<20)
			run(t, command[0], append(command[1:len(command):len(command)], file)...)
			want := blkid(t, file)
			if want.Type == "" {
				t.Fatal("blkid does not find the file system that was made")
			}
			if diff := cmp.Diff(disk.Superblock{Format: want}, Parse(first(t, file))); diff != "" {
				t.Error(diff)
			}
			for _, offset := range []int64{0, 1, 4, 10, 15, 32, 40, 83, 86, 88, 91, 100, 103, 105, 120, 121, 122, 123, 127, 200, 224, 300, 1024 + 0x38, 1024 + 0x60, 1024 + 0x68, 1024 + 0x300, 64<<10 + 0x20, 64<<10 + 0x40, 64<<10 + 0xc4, 64<<10 + 4000} {
				restore := damage(t, file, offset)
				found, known := Parse(first(t, file)), blkid(t, file)
				if found.Format.Type != "" && known.Type == "" {
					t.Errorf("with byte %d damaged %s is named, and blkid finds nothing: kubelet would format the device", offset, found.Format)
				}
				restore()
			}
		})
	}
}

func TestParseDamaged(t *testing.T) {
	ext, xfs := make([]byte, Size), make([]byte, Size)
	ext[1024+0x38], ext[1024+0x39] = 0x53, 0xEF
	copy(xfs, "XFSB")
	for name, test := range map[string]struct {
		image []byte
		want  disk.Superblock
	}{
		"nothing":                         {nil, disk.Superblock{}},
		"zeros":                           {make([]byte, Size), disk.Superblock{}},
		"cut off":                         {ext[:1500], disk.Superblock{}},
		"a magic number of XFS alone":     {xfs, disk.Superblock{}},
		"the smallest ext2":               {ext, disk.Superblock{Format: disk.Format{Type: "ext2", UUID: "00000000-0000-0000-0000-000000000000"}}},
		"less than the superblock of XFS": {xfs[:300], disk.Superblock{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Parse(test.image)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("XFSB"))
	f.Fuzz(func(t *testing.T, image []byte) {
		if found := Parse(image); found.Other != "" && found.Format.Type != "" {
			t.Errorf("%+v names a file system and something else", found)
		}
	})
}

// TestRead reads loop devices: formatted, blank, damaged, of another format.
func TestRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to attach loop devices takes root")
	}
	for _, bytes := range []string{"512", "4096"} {
		t.Run("sectors of "+bytes+" bytes", func(t *testing.T) {
			testRead(t, loop(t, image(t, 320<<20), "--sector-size="+bytes))
		})
	}
}

func testRead(t *testing.T, device string) {
	none := func(*os.File) error { return nil }
	read := func() disk.Superblock {
		t.Helper()
		found, err := Read(t.Context(), device, none)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := read(); !found.Blank() {
		t.Errorf("a blank device holds %s", found.Holds())
	}
	for _, name := range []string{"btrfs", "xfs", "ext4 as kubelet makes it"} {
		run(t, "wipefs", "--all", "--quiet", device)
		run(t, mkfs[name][0], append(mkfs[name][1:len(mkfs[name]):len(mkfs[name])], device)...)
		if diff := cmp.Diff(disk.Superblock{Format: blkid(t, device)}, read()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	restore := damage(t, device, 1024+0x68) // the UUID, so that the checksum is wrong
	if found := read(); found.Blank() || found.Other == "" || found.Format.Type != "" {
		t.Errorf("a damaged ext4 is %+v, want neither blank nor named", found)
	}
	restore()
	run(t, "wipefs", "--all", "--quiet", device)
	if found := read(); !found.Blank() {
		t.Errorf("after wipefs the device holds %s", found.Holds())
	}
	run(t, "mkswap", device)
	if found := read(); !strings.Contains(found.Other, "swap") {
		t.Errorf("a device with swap space is %+v", found)
	}
	run(t, "mkfs.xfs", "-q", "-f", device)
	run(t, "xfs_db", "-x", "-c", "sb 0", "-c", "write -d inprogress 1", device) // as mkfs.xfs begins
	if found := read(); blkid(t, device).Type != "xfs" || found.Format.Type != "" || !strings.Contains(found.Other, "xfs") {
		t.Errorf("an XFS whose mkfs was interrupted is %+v", found)
	}
	other := errors.New("another device")
	if _, err := Read(t.Context(), device, func(*os.File) error { return other }); !errors.Is(err, other) {
		t.Errorf("a device that was not verified was read: %v", err)
	}
	if _, err := Read(context.Background(), filepath.Join(t.TempDir(), "none"), none); err == nil {
		t.Error("a device that is not there was read")
	}
}

func first(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buffer := make([]byte, Size)
	if _, err := f.ReadAt(buffer, 0); err != nil {
		t.Fatal(err)
	}
	return buffer
}

// damage changes a byte, and returns a function that restores it.
func damage(t *testing.T, file string, offset int64) (restore func()) {
	t.Helper()
	flip := func() {
		f, err := os.OpenFile(file, os.O_RDWR|os.O_SYNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, offset); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x5a
		if _, err := f.WriteAt(b, offset); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	return flip
}

// blkid is what blkid finds as kubelet calls it; zero if it finds nothing.
func blkid(t *testing.T, file string) disk.Format {
	t.Helper()
	out, err := exec.Command("blkid", "-p", "-o", "export", file).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 2 {
		return disk.Format{}
	} else if err != nil {
		return disk.Format{Type: "several"} // exit code 8: kubelet does not format
	}
	found := disk.Format{Type: "other"}
	for line := range strings.Lines(string(out)) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "TYPE":
			found.Type = value
		case "UUID":
			found.UUID = value
		}
	}
	return found
}

func image(t *testing.T, size int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	return file
}

func loop(t *testing.T, file string, options ...string) string {
	t.Helper()
	device := strings.TrimSpace(run(t, "losetup", append(options, "--find", "--show", file)...))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("detach %s: %v\n%s", device, err, out)
		}
	})
	return device
}

// run runs a program, and skips the test where it is not installed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}
