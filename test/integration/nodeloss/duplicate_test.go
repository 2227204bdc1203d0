// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// oneIdentity: two nodes have a copy of one disk each, with one identity, and their
// provisioners run. Both nodes get an event, and the metric counts the identity. The
// disks are distinguished: each has its own volume with its own data, the loss of one
// node removes no volume, and a clean on the other removes the data of its disk only. Once
// the other disk is removed, the lost volume is removed like any other.
func oneIdentity(t *testing.T, e *fixture.Env) {
	s := newSite(t, e, nil)
	controller := run(t, e, "duplicates", "nodeLoss: {delay: 1s}\nleaderElection: {leaderElect: false}\n")
	duplicates := func(want string) {
		t.Helper()
		node.WaitAnswer(t, e, controller, "/metrics", want+" duplicate identities", func(a node.Answer) bool {
			return slices.Contains(strings.Split(a.Body, "\n"), "stowage_controller_duplicate_identities "+want)
		})
	}
	a, b := node.New(t, e, "a"), node.New(t, e, "b")
	image := a.Image("disk1.ext4", "16M")
	a.Command("mkfs.ext4", "-q", image)
	a.Command("cp", image, b.Path("images", "disk1.ext4"))
	used := map[*node.Node]*corev1.PersistentVolume{}
	for _, n := range []*node.Node{a, b} {
		n.MountAt(n.Path("images", "disk1.ext4"), n.PathOf(n.Files, "disk1"))
		n.Start()
		used[n] = n.Claim(n.Files, "disk1")
		n.Write("disk1", "data", "of "+n.Name)
	}
	if got, want := used[b].Annotations[wellknown.DiskIdentityAnnotation], used[a].Annotations[wellknown.DiskIdentityAnnotation]; got != want || used[a].Name == used[b].Name {
		t.Fatalf("volume %s of disk %s and volume %s of disk %s, want two volumes of one identity", used[a].Name, want, used[b].Name, got)
	}
	s.WaitEvent(metav1.NamespaceDefault, a.Name, "DuplicateIdentity", b.Name)
	s.WaitEvent(metav1.NamespaceDefault, b.Name, "DuplicateIdentity", a.Name)
	duplicates("1")

	a.Kill()
	s.lose("a")
	a.Unclaim(used[a])
	s.WaitEvent(metav1.NamespaceDefault, used[a].Name, "VolumeLost", b.Name)
	duplicates("0") // only live nodes count
	b.Release(used[b])
	again := b.WaitRepublished(b.Files, "disk1", used[b])
	if names := b.Names("disk1"); len(names) > 0 {
		t.Errorf("a volume that is Available holds %q", names)
	}
	if names := a.Names("disk1"); !slices.Contains(names, "data") {
		t.Errorf("the disk of node a holds %q, want its data", names)
	}
	if s.seen(used[a]) == nil {
		t.Error("the volume of node a was removed while node b showed a disk of its identity")
	}
	if tombstones := s.tombstonesOf(a.Name); len(tombstones) > 0 {
		t.Errorf("there are tombstones: %+v", tombstones)
	}

	b.Unmount(b.PathOf(b.Files, "disk1"))
	e.Wait("the volume of node b to be removed", func() bool { return s.seen(again) == nil })
	s.waitGone(used[a], stowage.TombstonePublished)
}
