// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/node"
)

// middle is an offset on a device of 64 MiB that checks of signatures, ends and samples do not read.
const middle = 20<<20 + 4242

// hide writes a secret that only a read of the whole device finds.
func hide(t *testing.T, device string) {
	t.Helper()
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(planted), middle); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// waitFound waits until the report names the offset of the secret and nothing of it.
func waitFound(n *node.Node, class string, state stowage.EntryState, reason string) {
	n.Env.T.Helper()
	entry := n.WaitEntry(class, "secret", state, reason)
	if !strings.Contains(entry.Message, "data at byte 20975762") || strings.Contains(entry.Message, planted) {
		n.Env.T.Errorf("the report has message %q", entry.Message)
	}
}

// TestBlankDevices: a device is published after every byte of it was read, and not because
// its ends are blank. The proof resumes after a restart.
func TestBlankDevices(t *testing.T) {
	n := newNode(t)
	devices := map[string]string{}
	for class, name := range map[string]string{n.Blocks: "blocks", n.Files: "files"} {
		devices[class] = n.Attach(n.Image(name+".raw", "64M"))
		hide(t, devices[class])
		n.Link(devices[class], n.PathOf(class, "secret"))
	}
	n.Device("blank", "64M")
	n.Configure(func(data map[string]any) { data["blankProofRate"], data["maxBlankProofs"] = "1Mi", 3 })
	n.Start()
	for _, slot := range [][2]string{{n.Blocks, "secret"}, {n.Files, "secret"}, {n.Blocks, "blank"}} {
		entry := n.WaitEntry(slot[0], slot[1], stowage.EntryPending, "ProvingBlank")
		if entry.BlankProof == nil || entry.BlankProof.TotalBytes != 64<<20 {
			t.Errorf("the report has proof %+v", entry.BlankProof)
		}
	}
	n.Stop()
	n.Start()
	n.WaitReport("with progress", func(r *stowage.LocalDiskReport) bool {
		for _, entry := range r.Status.Entries {
			if entry.Class == n.Blocks && entry.Name == "blank" && entry.BlankProof != nil && entry.BlankProof.DoneBytes >= 4<<20 {
				return true
			}
		}
		return false
	})
	if volumes := n.Published(n.Blocks); len(volumes) > 0 {
		t.Errorf("%q are published", volumes)
	}
	n.Stop()
	n.Configure(func(data map[string]any) { data["blankProofRate"] = "1Gi" })
	n.Start()
	waitFound(n, n.Blocks, stowage.EntrySkipped, "NotEmpty")
	waitFound(n, n.Files, stowage.EntrySkipped, "NotEmpty")
	n.WaitPhase(n.Blocks, "blank", corev1.VolumeAvailable)
	for class, device := range devices {
		n.WaitNone(class, "secret")
		if !found(t, device, planted) {
			t.Errorf("%s was wiped", device)
		}
		n.Command("blkdiscard", "--zeroout", device)
	}
	n.WaitPhase(n.Blocks, "secret", corev1.VolumeAvailable)
	n.WaitPhase(n.Files, "secret", corev1.VolumeAvailable)
}

// TestAssumeBlank: a class may declare its new devices blank. Dirty ones are not new.
func TestAssumeBlank(t *testing.T) {
	n := newNode(t)
	class := n.AddClass("cloud", map[string]any{"existingData": "AssumeBlank", "volumeMode": "Block"})
	n.Env.CreateClass(n.Env.Class(class).ReclaimPolicy(corev1.PersistentVolumeReclaimRetain))
	image := n.Image("secret.raw", "64M")
	device := n.Attach(image)
	n.Link(device, n.PathOf(class, "secret"))
	used := n.Attach(n.Image("used.raw", "64M"))
	plant(t, used, planted)
	n.Link(used, n.PathOf(class, "used"))
	n.Configure(func(data map[string]any) { data["blankProofRate"] = "1Mi" })
	n.Start()
	n.WaitEntry(class, "used", stowage.EntrySkipped, "NotEmpty")
	n.WaitPhase(class, "secret", corev1.VolumeAvailable) // not read, which takes a minute at this rate
	volume := n.Claim(class, "secret")
	hide(t, device)
	n.Release(volume)
	n.WaitEntry(class, "secret", stowage.EntryReleased, "")
	n.Delete(volume)
	n.WaitEntry(class, "secret", stowage.EntryRetained, "ProvingBlank")
	n.Stop()
	n.Configure(func(data map[string]any) { data["blankProofRate"] = "1Gi" })
	n.Start()
	waitFound(n, class, stowage.EntryRetained, "RetainedDirty")

	// Attached again, it has another identity; only its path is unchanged.
	n.Stop()
	n.Detach(device)
	again := n.Attach(image)
	if err := os.Remove(n.PathOf(class, "secret")); err != nil {
		t.Fatal(err)
	}
	n.Link(again, n.PathOf(class, "secret"))
	n.Start()
	waitFound(n, class, stowage.EntrySkipped, "IdentityUnproven")
	n.WaitNone(class, "secret")
	n.Command("blkdiscard", "--zeroout", again)
	n.WaitPhase(class, "secret", corev1.VolumeAvailable)
}
