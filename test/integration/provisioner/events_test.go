// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// TestEvents: a volume's events show its lifecycle, and why it is delayed.
func TestEvents(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Start()
	volume := n.Claim(n.Files, "disk1")
	path := n.PathOf(n.Files, "disk1")
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumePublished", path, n.Name)

	mounted := n.Path("kubelet/pods/1/volumes/kubernetes.io~local-volume", volume.Name)
	if err := os.MkdirAll(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	n.Write("disk1", "secret", "of its user")
	n.Release(volume)
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeInUse", "kubelet", mounted)
	n.WaitEntry(n.Files, "disk1", stowage.EntryReleased, "VolumeInUse")
	if names := n.Names("disk1"); len(names) != 1 {
		t.Errorf("a volume was cleaned while kubelet had it mounted: it holds %q", names)
	}

	if err := os.RemoveAll(n.Path("kubelet/pods/1")); err != nil {
		t.Fatal(err)
	}
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeDelete", "Cleaning", path)
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeCleaned", path)
	next := n.WaitRepublished(n.Files, "disk1", volume)

	n.Unmount(path)
	n.WaitNone(n.Files, "disk1")
	n.Env.WaitEvent(metav1.NamespaceDefault, next.Name, "VolumeDelete", "Withdrawn")
}

// TestFailedClean: the error of a failed clean is reported, and the volume stays
// until one succeeds.
func TestFailedClean(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Set(n.Files, "fsCleanerCommand", []any{script(t, n, "echo no such robot; exit 3")})
	n.Start()
	volume := n.Claim(n.Files, "disk1")
	n.Write("disk1", "secret", "of its user")
	n.Release(volume)
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeFailedDelete", "no such robot", "exit status 3")
	n.WaitReport("how the clean failed", func(r *stowage.LocalDiskReport) bool {
		return len(r.Status.Entries) == 1 && r.Status.Entries[0].Reason == "CleanFailed" &&
			contains(r.Status.Entries[0].Cleaning.LastError, "no such robot") && r.Status.Entries[0].Cleaning.Attempts > 0
	})
	waitMetric(n, `local_volume_provisioner_persistentvolume_delete_failed_total{mode="Filesystem",type="process"}`, "counted", func(v float64) bool { return v >= 1 })
	if now := n.Volume(n.Files, "disk1"); now == nil || now.UID != volume.UID {
		t.Errorf("the volume of a failed clean is %v", now)
	}
	n.Set(n.Files, "fsCleanerCommand", nil)
	n.WaitRepublished(n.Files, "disk1", volume)
	if names := n.Names("disk1"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
	n.WaitEntry(n.Files, "disk1", stowage.EntryAvailable, "")
}

// TestRecycle: no local volume can be recycled. It is not changed until an administrator
// chooses another policy.
func TestRecycle(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Start()
	volume := n.Claim(n.Files, "disk1")
	n.Write("disk1", "secret", "of its user")
	n.SetPolicy(volume, corev1.PersistentVolumeReclaimRecycle)
	n.Release(volume)
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeUnsupportedReclaimPolicy", "set the reclaim policy of volume "+volume.Name)
	if names := n.Names("disk1"); len(names) != 1 {
		t.Errorf("a volume of policy Recycle was cleaned: it holds %q", names)
	}
	n.WaitVolume(n.Files, "disk1", "Failed", func(v *corev1.PersistentVolume) bool { return v != nil && v.Status.Phase == corev1.VolumeFailed })
	n.SetPolicy(volume, corev1.PersistentVolumeReclaimDelete)
	n.WaitEntry(n.Files, "disk1", stowage.EntryFailed, "PhaseFailed")
	n.Delete(volume)
	n.WaitRepublished(n.Files, "disk1", volume)
	if names := n.Names("disk1"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
}
