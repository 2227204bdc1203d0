// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskfaults_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

const filesystem, blockMode = corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock

func plant(t *testing.T, m medium, mode corev1.PersistentVolumeMode) {
	t.Helper()
	if err := m.plant(mode, rand.New(rand.NewPCG(1, 2))); err != nil {
		t.Fatal(err)
	}
}

func mustBeClean(t *testing.T, m medium, mode corev1.PersistentVolumeMode) {
	t.Helper()
	if dirt, err := m.dirt(mode); err != nil || dirt != "" {
		t.Errorf("the disk is not clean: %s %v", dirt, err)
	}
}

// TestFullStateFolder: while records cannot be written, no volume is published and no disk
// cleaned, users see why, and everything resumes when the folder has space again.
func TestFullStateFolder(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	n := node.New(t, e, "a")
	if err := unix.Mount("tmpfs", n.Path("state"), "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Kill()
		if err := unix.Unmount(n.Path("state"), 0); err != nil {
			t.Error(err)
		}
	})
	tree := newTree(n, n.Mount("disk1", "24M"))
	filler := fill(t, n.Path("state"))
	n.Start()
	entry := n.WaitEntry(n.Files, "disk1", stowage.EntryPending, "CannotCreate")
	if !strings.Contains(entry.Message, "no space left") {
		t.Errorf("the report has message %q", entry.Message)
	}
	if published := n.Published(n.Files); len(published) > 0 {
		t.Errorf("published are %q", published)
	}
	empty(t, filler)
	volume := n.Claim(n.Files, "disk1")
	plant(t, tree, filesystem)
	filler = fill(t, n.Path("state"))
	n.Unclaim(volume)
	n.WaitEntry(n.Files, "disk1", stowage.EntryCleaning, string(disk.CleanFailed))
	if err := tree.intact(); err != nil {
		t.Errorf("cleaned, although it could not be written down: %v", err)
	}
	empty(t, filler)
	n.WaitRepublished(n.Files, "disk1", volume)
	mustBeClean(t, tree, filesystem)
}

// fill writes until the file system is full, and returns the file.
func fill(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(folder, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 512))
	}
	return path
}

func empty(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedRecord: a record that cannot be read speaks against its own disk, and
// against no other.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"cut off":      func(text []byte) []byte { return text[:len(text)/2] },
		"empty":        func([]byte) []byte { return nil },
		"a bit turned": func(text []byte) []byte { text[len(text)/2] ^= 1; return text },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			damaged(t, damage)
		})
	}
}

func damaged(t *testing.T, damage func([]byte) []byte) {
	n := node.New(t, fixture.New(t), "a")
	tree, other := newTree(n, n.Mount("disk1", "24M")), newTree(n, n.Mount("disk2", "24M"))
	free := newTree(n, n.Mount("disk3", "24M"))
	n.Start()
	volume := n.Claim(n.Files, "disk1")
	vanishing := n.WaitPhase(n.Files, "disk3", corev1.VolumeAvailable)
	plant(t, tree, filesystem)
	plant(t, free, filesystem) // by a pod that the API server does not have
	n.Kill()
	n.Delete(vanishing)
	if err := n.StripFinalizers(n.Env.Context(), vanishing.Name); err != nil {
		t.Fatal(err)
	}
	one, three := spoil(t, n, "disk1", damage), spoil(t, n, "disk3", damage)
	n.Start()
	n.WaitEntry(n.Files, "disk1", stowage.EntryBound, string(disk.BadRecord))
	n.WaitEntry(n.Files, "disk3", stowage.EntrySkipped, string(disk.BadRecord))
	n.Unclaim(volume)
	n.WaitEntry(n.Files, "disk1", stowage.EntryReleased, string(disk.BadRecord))

	second := n.Claim(n.Files, "disk2")
	plant(t, other, filesystem)
	n.Unclaim(second)
	n.WaitRepublished(n.Files, "disk2", second)
	mustBeClean(t, other, filesystem)

	if err := tree.intact(); err != nil {
		t.Errorf("cleaned, although nothing is known about the disk: %v", err)
	}
	if names := n.Published(n.Files); len(names) != 2 {
		t.Errorf("published are %q, want disk1 and disk2", names)
	}
	empty(t, one)
	n.WaitRepublished(n.Files, "disk1", volume)
	if names := n.Names("disk1"); len(names) > 0 { // the root's attributes are lost
		t.Errorf("a volume that is Available holds %q", names)
	}
	empty(t, three)
	n.WaitEntry(n.Files, "disk3", stowage.EntrySkipped, string(disk.NotEmpty))
}

// spoil damages the record of a slot's disk, and returns its file.
func spoil(t *testing.T, n *node.Node, name string, damage func([]byte) []byte) string {
	t.Helper()
	files, err := filepath.Glob(n.Path("state", "disks", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), n.PathOf(n.Files, name)+`"`) {
			continue
		}
		if err := os.WriteFile(file, damage(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Fatalf("no record of %s", name)
	return ""
}

// TestPolicyChanged: a volume's policy becomes Retain after it was published, and the
// volume is deleted by force. Its data stays.
func TestPolicyChanged(t *testing.T) {
	t.Parallel()
	n := node.New(t, fixture.New(t), "a")
	tree := newTree(n, n.Mount("disk1", "24M"))
	n.Start()
	volume := n.Claim(n.Files, "disk1")
	plant(t, tree, filesystem)
	retained := make(chan struct{})
	defer onRecordThat(n, func(r *disk.Record) bool { return r.Policy == disk.Retain }, func() { close(retained) })()
	patch := []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	if _, err := n.Env.Client.CoreV1().PersistentVolumes().Patch(t.Context(), volume.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(n.Env, "the policy to be recorded", retained)
	n.Kill()
	n.Delete(volume)
	if err := n.StripFinalizers(t.Context(), volume.Name); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WaitEntry(n.Files, "disk1", stowage.EntryRetained, string(disk.RetainedDirty))
	if err := tree.intact(); err != nil {
		t.Errorf("retained data is lost: %v", err)
	}
}

// TestAnotherMode: a device that was cleaned for a file system, of which old bytes can
// be read, moves to a class of volume mode Block. It waits until it is zero.
func TestAnotherMode(t *testing.T) {
	t.Parallel()
	n := node.New(t, fixture.New(t), "a")
	path := n.Attach(n.Image("disk1", "32M"))
	n.Link(path, n.PathOf(n.Files, "disk1"))
	n.Start()
	volume := n.Claim(n.Files, "disk1")
	block := &device{path: path}
	plant(t, block, blockMode)
	plant(t, block, filesystem)
	n.Unclaim(volume)
	again := n.WaitRepublished(n.Files, "disk1", volume)
	if dirt, err := block.dirt(blockMode); err != nil || dirt == "" {
		t.Fatalf("fs-reset has left nothing, so this shows nothing: %v", err)
	}
	unlink := func() {
		empty(t, n.PathOf(n.Files, "disk1"))
		n.WaitVolume(n.Files, "disk1", "withdrawn", func(v *corev1.PersistentVolume) bool { return v == nil || v.UID != again.UID })
	}
	unlink()
	n.Link(path, n.PathOf(n.Files, "disk1"))
	again = n.WaitRepublished(n.Files, "disk1", again) // to a file system, old bytes are none
	unlink()
	n.Link(path, n.PathOf(n.Blocks, "disk1"))
	n.WaitEntry(n.Blocks, "disk1", stowage.EntryRetained, string(disk.VolumeVanished))
	if err := block.empty(); err != nil {
		t.Fatal(err)
	}
	n.WaitPhase(n.Blocks, "disk1", corev1.VolumeAvailable)
	mustBeClean(t, block, blockMode)
}
