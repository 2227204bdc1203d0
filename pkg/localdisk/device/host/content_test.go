// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/device/host"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// TestReadContent reads a device in several states, and writes nothing to it.
func TestReadContent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to attach loop devices takes root")
	}
	h, err := host.New(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const size = 16 << 20
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, image string)
		forge   func(*disk.BlockDevice)
		holds   string      // part of what is found; empty for a blank device
		problem disk.Reason // empty if it can be read
	}{
		"blank": {},
		"with a partition table": {
			prepare: func(t *testing.T, image string) { t.Helper(); writeAt(t, image, "\x55\xaa", 510) }, holds: "dos",
		},
		"with swap": {
			prepare: func(t *testing.T, image string) { t.Helper(); writeAt(t, image, "SWAPSPACE2", 4096-10) }, holds: "swap",
		},
		"that cannot be read": {
			prepare: func(t *testing.T, image string) {
				t.Helper()
				if err := os.Truncate(image, 4096); err != nil {
					t.Fatal(err)
				}
			},
			problem: disk.IOError,
		},
		"that is another disk": {forge: func(d *disk.BlockDevice) { d.Identity += "0" }, problem: disk.Replaced},
		"that does not exist":  {forge: func(d *disk.BlockDevice) { d.Path += "-none" }, problem: disk.Unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			image, folder := filepath.Join(t.TempDir(), "image"), t.TempDir()
			if err := os.WriteFile(image, make([]byte, size), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("losetup", "--find", "--show", image).Output()
			if err != nil {
				t.Skipf("losetup: %v", err)
			}
			device := strings.TrimSpace(string(out))
			t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
			if err := os.Symlink(device, filepath.Join(folder, "disk")); err != nil {
				t.Fatal(err)
			}
			fact, err := h.Find(t.Context(), disk.Folder{Class: "test", HostPath: folder, Path: folder, Mode: disk.Filesystem}, "disk")
			if err != nil {
				t.Fatal(err)
			}
			if tc.prepare != nil {
				tc.prepare(t, image)
			}
			d := disk.BlockDevice{Path: device, Identity: fact.Identity}
			if tc.forge != nil {
				tc.forge(&d)
			}
			before := contentOf(t, h, device)
			found := h.ReadContent(t.Context(), d)
			switch {
			case tc.problem != "":
				if found.Problem == nil || found.Problem.Reason != tc.problem {
					t.Errorf("the problem is %v, want %s", found.Problem, tc.problem)
				}
			case found.Problem != nil:
				t.Error(found.Problem)
			case tc.holds == "" && !found.Blank(), !strings.Contains(found.Holds(), tc.holds):
				t.Errorf("it holds %s, want %s", found.Holds(), tc.holds)
			}
			if after := contentOf(t, h, device); after != before {
				t.Errorf("the device was written to: %q before, %q after", before, after)
			}
		})
	}
}

// contentOf returns what the kernel counts of the writes to a device.
func contentOf(t *testing.T, h *host.Host, path string) string {
	t.Helper()
	all, err := h.BlockDevices()
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if all[i].Path == path {
			return all[i].Content
		}
	}
	t.Fatalf("%s is not among the devices", path)
	return ""
}

func writeAt(t *testing.T, image, text string, at int64) {
	t.Helper()
	file, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte(text), at); err != nil {
		t.Fatal(err)
	}
}
