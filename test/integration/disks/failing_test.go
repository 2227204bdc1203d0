// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/test/integration/node"
)

// breakExt4 makes the file system of a slot behave as after a disk error.
func breakExt4(t *testing.T, n *node.Node, name string) {
	t.Helper()
	path := n.PathOf(n.Files, name)
	n.Command("mount", "-o", "remount,errors=remount-ro", path)
	device := strings.TrimSpace(n.Command("findmnt", "--noheadings", "--output=SOURCE", path))
	if err := os.WriteFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "trigger_fs_error"), []byte("the test's"), 0); err != nil {
		t.Skipf("the kernel triggers no errors of ext4: %v", err)
	}
}

// check repairs the file system of a slot, and mounts it again.
func check(n *node.Node, name string) {
	n.Unmount(n.PathOf(n.Files, name))
	n.Command("sh", "-c", `e2fsck -fy "$1" || [ $? -eq 1 ]`, "sh", n.Path("images", name+".ext4"))
	remount(n, name)
}

// resetHealth declares the disks of slots to be sound, as an administrator does.
func resetHealth(t *testing.T, n *node.Node, names ...string) {
	t.Helper()
	var resets []string
	for _, name := range names {
		entry := n.WaitEntry(n.Files, name, stowage.EntryFailing, "FilesystemError")
		_, reset, found := strings.Cut(entry.Message, wellknown.HealthyDisksAnnotation+"=")
		if !found {
			t.Fatalf("the message of %s names no reset: %s", name, entry.Message)
		}
		resets = append(resets, reset)
	}
	if err := n.AnnotateReport(n.Env.Context(), wellknown.HealthyDisksAnnotation, strings.Join(resets, ",")); err != nil {
		t.Fatal(err)
	}
}

// TestFailingDisks: a free volume of a failing disk is withdrawn. One with a claim is
// marked, its pods are not placed, with a reason, and once the disk is repaired and its health
// reset they are, with their data. A claim that is mounted read-only is no fault.
func TestFailingDisks(t *testing.T) {
	n := newNode(t)
	slots(n, "free", "bound", "released", "readonly")
	mountXFS(n, "shut")
	n.Start()
	bound, shut, readonly := used(n, "bound"), used(n, "shut"), used(n, "readonly")
	released := used(n, "released")
	free := n.WaitPhase(n.Files, "free", corev1.VolumeAvailable)

	pod := n.Path("kubelet", "pods/1/volumes/kubernetes.io~local-volume", readonly.Name)
	n.Bind(n.PathOf(n.Files, "readonly"), pod)
	n.Command("mount", "-o", "bind,remount,ro", pod)
	for _, name := range []string{"bound", "released", "shut"} { // unsynced data may be lost
		n.Command("sync", "--file-system", n.PathOf(n.Files, name))
	}
	broken := time.Now()
	for _, name := range []string{"free", "bound", "released"} {
		breakExt4(t, n, name)
	}
	n.Command("xfs_io", "-x", "-c", "shutdown", n.PathOf(n.Files, "shut"))

	n.WaitEntry(n.Files, "bound", stowage.EntryFailing, "FilesystemError")
	n.Env.WaitEvent(metav1.NamespaceDefault, bound.Name, "FilesystemError")
	n.WaitEntry(n.Files, "shut", stowage.EntryFailing, "FilesystemError")
	n.Env.WaitEvent(metav1.NamespaceDefault, shut.Name, "FilesystemError")
	waitMark(n, "bound", "Failing")
	waitMark(n, "shut", "Failing")
	if took := time.Since(broken); took > 30*time.Second {
		t.Errorf("the faults were reported, and the volumes marked, after %s", took)
	} else {
		t.Logf("the faults were reported, and the volumes marked, after %s", took)
	}
	n.WaitVolume(n.Files, "free", "withdrawn", func(v *corev1.PersistentVolume) bool { return v != nil && v.DeletionTimestamp != nil })
	n.Release(released)
	n.WaitEntry(n.Files, "released", stowage.EntryFailing, "FilesystemError")
	n.WaitReport("that counts the failing ones", func(r *stowage.LocalDiskReport) bool {
		return r.Status.Summary != nil && r.Status.Summary.Failing == 4
	})
	ofBound := n.Env.CreatePod(n.Env.Pod("of-bound").PVC(bound.Name))
	ofShut := n.Env.CreatePod(n.Env.Pod("of-shut").PVC(shut.Name))
	n.Env.WaitUnschedulable(ofBound, match.DiskFailing.String())
	n.Env.WaitUnschedulable(ofShut, match.DiskFailing.String())
	n.WaitEntry(n.Files, "readonly", stowage.EntryBound, "")
	waitMark(n, "readonly", "")

	for _, name := range []string{"free", "bound", "released"} {
		check(n, name)
	}
	n.Unmount(n.PathOf(n.Files, "shut"))
	n.MountAt(n.Path("images", "shut.xfs"), n.PathOf(n.Files, "shut"))
	waitMark(n, "bound", "Failing") // the sign is gone, and the health is recorded
	resetHealth(t, n, "free", "bound", "released", "shut")
	n.Env.WaitScheduled(ofBound)
	n.Env.WaitScheduled(ofShut)
	for _, name := range []string{"bound", "shut"} {
		waitMark(n, name, "")
		untouched(t, n.PathOf(n.Files, name))
	}
	n.WaitRepublished(n.Files, "free", free)
	n.WaitRepublished(n.Files, "released", released)
	emptied(t, n, "released")
}
