// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/node"
)

// TestClassAdded: the disks of an added class are published,
// once its StorageClass exists.
func TestClassAdded(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Start()
	before := n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	process := n.Process()

	more := n.AddClass("more", nil)
	n.TmpfsAt(n.PathOf(more, "disk1"), "1m")
	n.WaitEntry(more, "disk1", stowage.EntryPending, "StorageClassMissing")
	n.Env.CreateClass(n.Env.Class("more").ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	n.WaitPhase(more, "disk1", corev1.VolumeAvailable)
	same(t, n, before, n.Files, "disk1")
	stillRuns(t, n, process.PID())
}

// TestClassRemoved: volumes of a removed class stay, and are reported;
// they are cleaned once the class is configured again.
func TestClassRemoved(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("free", "1m")
	n.Tmpfs("bound", "1m")
	n.Tmpfs("released", "1m")
	n.Start()
	free := n.WaitPhase(n.Files, "free", corev1.VolumeAvailable)
	bound, released := n.Claim(n.Files, "bound"), n.Claim(n.Files, "released")
	n.Write("released", "secret", "of its user")
	pid := n.Process().PID()

	n.Configure(func(data map[string]any) { delete(data["storageClassMap"].(map[string]any), n.Files) })
	n.WaitEntry(n.Files, "free", stowage.EntryAvailable, "NotConfigured")
	n.WaitEntry(n.Files, "bound", stowage.EntryBound, "NotConfigured")
	n.Env.WaitEvent(metav1.NamespaceDefault, bound.Name, "NotConfigured", "configuration")
	n.Release(released)
	n.WaitEntry(n.Files, "released", stowage.EntryReleased, "NotConfigured")
	same(t, n, free, n.Files, "free")
	same(t, n, bound, n.Files, "bound")
	if names := n.Names("released"); len(names) != 1 {
		t.Errorf("a volume was cleaned without its class: it holds %q", names)
	}

	n.Configure(nil)
	n.WaitRepublished(n.Files, "released", released)
	n.WaitEntry(n.Files, "free", stowage.EntryAvailable, "")
	same(t, n, free, n.Files, "free")
	stillRuns(t, n, pid)
}

// TestPatternNarrowed: volumes whose names no longer match the pattern stay as long as
// they are used, and are not published again.
func TestPatternNarrowed(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("old1", "1m")
	n.Tmpfs("old2", "1m")
	n.Start()
	old1 := n.WaitPhase(n.Files, "old1", corev1.VolumeAvailable)
	old2 := n.Claim(n.Files, "old2")
	n.Write("old2", "secret", "of its user")

	n.Set(n.Files, "namePattern", "new*,disk*")
	n.WaitEntry(n.Files, "old1", stowage.EntryAvailable, "NotConfigured")
	n.Tmpfs("old3", "1m")
	n.Tmpfs("new1", "1m")
	n.WaitPhase(n.Files, "new1", corev1.VolumeAvailable) // had the other one been published, it would be by now
	if n.Volume(n.Files, "old3") != nil {
		t.Error("a disk was published whose name matches no pattern")
	}
	n.Release(old2)
	n.Env.WaitEvent(metav1.NamespaceDefault, old2.Name, "VolumeCleaned")
	n.WaitNone(n.Files, "old2")
	if names := n.Names("old2"); len(names) > 0 {
		t.Errorf("a volume was released and has %q", names)
	}
	n.Tmpfs("new2", "1m")
	n.WaitPhase(n.Files, "new2", corev1.VolumeAvailable)
	if n.Volume(n.Files, "old2") != nil {
		t.Error("a disk was published again though its name matches no pattern")
	}
	same(t, n, old1, n.Files, "old1")

	n.Set(n.Files, "namePattern", nil)
	n.WaitPhase(n.Files, "old2", corev1.VolumeAvailable)
	n.WaitPhase(n.Files, "old3", corev1.VolumeAvailable)
	n.WaitEntry(n.Files, "old1", stowage.EntryAvailable, "")
}

// TestCleanerChanged: volumes released after the change are cleaned by the new command.
func TestCleanerChanged(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Start()
	first := n.Claim(n.Files, "disk1")
	n.Release(first)
	n.WaitRepublished(n.Files, "disk1", first)
	pid := n.Process().PID()

	ran := n.Path("ran")
	n.Set(n.Files, "fsCleanerCommand", []any{script(t, n, `find "$LOCAL_PV_FILESYSTEM" -mindepth 1 -delete && echo "$1 $LOCAL_PV_FILESYSTEM" > `+ran), "hard"})
	waitMetric(n, `stowage_provisioner_config_reloads_total{result="success"}`, "2", func(v float64) bool { return v == 2 })
	second := n.Claim(n.Files, "disk1")
	n.Write("disk1", "secret", "of its user")
	n.Release(second)
	n.WaitRepublished(n.Files, "disk1", second)
	text, err := os.ReadFile(ran)
	if want := "hard " + n.PathOf(n.Files, "disk1") + "\n"; err != nil || string(text) != want {
		t.Errorf("the new command has written %q (%v), want %q", text, err, want)
	}
	stillRuns(t, n, pid)
}

// TestMountedConfigMap: the provisioner applies the version that kubelet swaps in atomically.
func TestMountedConfigMap(t *testing.T) {
	n := newNode(t)
	n.Args = append(n.Args, "--config="+n.Path("mounted"))
	swap(t, n, "..2026_01_01")
	n.Tmpfs("disk1", "1m")
	n.Start()
	n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)

	more := n.AddClass("more", nil)
	n.Env.CreateClass(n.Env.Class("more").ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	n.TmpfsAt(n.PathOf(more, "disk1"), "1m")
	swap(t, n, "..2026_01_02")
	n.WaitPhase(more, "disk1", corev1.VolumeAvailable)

	n.WriteConfig("maxCleaning", "none")
	swap(t, n, "..2026_01_03")
	waitConfig(n, "a bad version is swapped in", metav1.ConditionFalse, "maxCleaning")
	n.WriteConfig("maxCleaning", "4")
	swap(t, n, "..2026_01_04")
	waitConfig(n, "a good one comes after it", metav1.ConditionTrue)
}

// swap does what kubelet does when a ConfigMap has changed: a folder with the new
// version, a link to it that replaces the one to the old, and the old is removed.
func swap(t *testing.T, n *node.Node, version string) {
	t.Helper()
	mounted := n.Path("mounted")
	if err := os.MkdirAll(filepath.Join(mounted, version), 0o755); err != nil {
		t.Fatal(err)
	}
	keys, err := os.ReadDir(n.Path("config"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		text, err := os.ReadFile(n.Path("config", key.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(mounted, version, key.Name()), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, _ := os.Readlink(filepath.Join(mounted, "..data"))
	n.Link(version, filepath.Join(mounted, "..data_tmp"))
	if err := os.Rename(filepath.Join(mounted, "..data_tmp"), filepath.Join(mounted, "..data")); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		link := filepath.Join(mounted, key.Name())
		if _, err := os.Lstat(link); err != nil {
			n.Link(filepath.Join("..data", key.Name()), link)
		}
	}
	if old != "" {
		if err := os.RemoveAll(filepath.Join(mounted, old)); err != nil {
			t.Fatal(err)
		}
	}
}

// script makes a program of shell commands.
func script(t *testing.T, n *node.Node, lines string) string {
	t.Helper()
	path := n.Path("cleaner.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nset -e\n"+lines+"\n"), 0o755); err != nil { //nolint:gosec // It is executed.
		t.Fatal(err)
	}
	return path
}

// same fails the test if a slot has another volume than before.
func same(t *testing.T, n *node.Node, before *corev1.PersistentVolume, class, name string) {
	t.Helper()
	now := n.Volume(class, name)
	if now == nil || now.UID != before.UID || now.DeletionTimestamp != nil {
		t.Errorf("%s had volume %s and now has %v", n.PathOf(class, name), before.Name, now)
	}
}

func stillRuns(t *testing.T, n *node.Node, pid int) {
	t.Helper()
	select {
	case <-n.Process().Done():
		t.Error("the provisioner has ended")
	default:
	}
	if now := n.Process().PID(); now != pid {
		t.Errorf("the provisioner was restarted: it is process %d, and was %d", now, pid)
	}
}
