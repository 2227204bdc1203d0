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
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// TestFence: a link is made, and a superblock is read, only of the device with the identity.
func TestFence(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to attach loop devices takes root")
	}
	h, err := host.New(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	image, folder := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := os.WriteFile(image, make([]byte, 16<<20), 0o600); err != nil {
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
	link := localpv.LinkPath("test", "local-pv-"+filepath.Base(folder)+filepath.Base(device))
	t.Cleanup(func() { _ = h.RemoveLink(link) })
	other := fact
	other.Identity += "0"
	if err := h.AddLink(link, other); err == nil {
		t.Error("another disk was linked")
	}
	if _, err := h.ReadSuperblock(t.Context(), other); err == nil {
		t.Error("another disk was read")
	}
	if target, err := h.LinkTarget(link); target != "" || err != nil {
		t.Errorf("there is a link to %q (%v)", target, err)
	}
	if err := h.AddLink(link, fact); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(link); target != device || err != nil {
		t.Errorf("the link leads to %q (%v), want %s", target, err, device)
	}
	if found, err := h.ReadSuperblock(t.Context(), fact); err != nil || !found.Blank() {
		t.Errorf("a blank device holds %s (%v)", found.Holds(), err)
	}
	if err := h.RemoveLink(link); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(link); !os.IsNotExist(err) {
		t.Errorf("the link is still there: %v", err)
	}
}
