// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss_test

import (
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// TestDiskOfALostNode: its claim was released, and its Node is deleted. The disk appears
// at another node, or at a reinstalled machine of the same name: it is cleaned
// before it is published, and the tombstone is removed.
func TestDiskOfALostNode(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"at another node": false, "at the same, reinstalled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			s := newSite(t, e, nil)
			n := node.New(t, e, "a")
			n.Mount("disk1", "16M")
			n.Start()
			before := n.Claim(n.Files, "disk1")
			n.Write("disk1", "secret", "of the first user")
			n.Kill()
			s.lose("a")
			n.Unclaim(before)
			s.waitGone(before, stowage.TombstonePublished)

			n.Unmount(n.PathOf(n.Files, "disk1"))
			next := n
			if same {
				if err := os.RemoveAll(n.Path("state")); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(n.Path("state"), 0o755); err != nil {
					t.Fatal(err)
				}
				e.AddNodes(e.Node("a"))
				n.Login()
			} else {
				next = node.New(t, e, "b")
			}
			next.MountAt(n.Path("images", "disk1.ext4"), next.PathOf(next.Files, "disk1"))
			next.Start()
			after := next.WaitPhase(next.Files, "disk1", corev1.VolumeAvailable)
			if after.Annotations[wellknown.DiskIdentityAnnotation] != before.Annotations[wellknown.DiskIdentityAnnotation] || after.Name == before.Name {
				t.Errorf("volume %s of disk %s, want another one than %s of disk %s", after.Name, after.Annotations[wellknown.DiskIdentityAnnotation], before.Name, before.Annotations[wellknown.DiskIdentityAnnotation])
			}
			if _, err := os.Stat(filepath.Join(next.PathOf(next.Files, "disk1"), "secret")); !os.IsNotExist(err) {
				t.Errorf("the first user's data is in a volume that is Available: %v", err)
			}
			s.waitTombstones(n.Name, none)
		})
	}
}

// TestDiskRemoved: a working node loses a disk, under a StatefulSet whose claims may be released.
// The StatefulSet runs with another disk. The provisioner removes the volume's finalizer and
// records the disk, which is cleaned when it is attached again.
func TestDiskRemoved(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	s := newSite(t, e, nil)
	n := node.New(t, e, "a")
	s.class = n.Files
	n.Mount("disk1", "16M")
	n.Mount("disk2", "16M")
	n.Start()
	s.provisionerPod("a")
	n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	n.WaitPhase(n.Files, "disk2", corev1.VolumeAvailable)
	s.set("db", 1, func(set *appsv1.StatefulSet) { set.Spec.VolumeClaimTemplates[0].Annotations = asks("Release", "2s") })
	before := s.waitPlaced("db-0", "data-db-0", nil)
	slot := filepath.Base(localpv.PathOf(before.pv))
	n.Write(slot, "secret", "of the first pod")
	n.Unmount(n.PathOf(n.Files, slot))
	s.waitPlaced("db-0", "data-db-0", before)
	s.waitGone(before.pv, stowage.TombstonePublished)
	n.MountAt(n.Path("images", slot+".ext4"), n.PathOf(n.Files, slot))
	n.WaitRepublished(n.Files, slot, before.pv)
	if names := n.Names(slot); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
	s.waitTombstones(n.Name, none)
}

// TestHostnames: nodes whose hostname is not their name are listed for the provisioners' policies,
// as long as they exist; entries of others stay.
func TestHostnames(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	s := newSite(t, e, nil)
	key := "host." + e.Name("a")
	e.AddNodes(e.Node("a").Hostname(e.Name("host-of-a")), e.Node("b"))
	others := `{"data":{"host.` + e.Name("others") + `":"theirs"}}`
	if _, err := e.Client.CoreV1().ConfigMaps("stowage-system").Patch(e.Context(), "stowage-provisioner-nodes", "application/merge-patch+json", []byte(others), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitHost(key, e.Name("host-of-a"))
	s.lose("a")
	s.waitHost(key, "")
	if got := s.hosts(); got["host."+e.Name("others")] != "theirs" || got["host."+e.Name("b")] != "" || got["classes"] == "" {
		t.Errorf("what others have written was touched: %v", got)
	}
}
