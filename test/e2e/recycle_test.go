// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
)

// TestRecycled: disks that appear on a node become volumes, which pods write to and read. When
// the claim is deleted the volume is cleaned and published again, and the next pod sees no
// data of the previous one.
func TestRecycled(t *testing.T) {
	site.Group(t)
	const size = 24 << 20
	// What pods do with a volume that is named volume.
	const empty = `found=$(find /data/volume -mindepth 1 ! -name lost+found) && test -z "$found" && echo empty || { echo "found $found"; exit 1; }`
	const write = empty + "; echo secret >/data/volume/word; mkdir -p /data/volume/a/b; echo deep >/data/volume/a/.hidden; chmod 000 /data/volume/a; sync"
	const device = "if cmp -n $(blockdev --getsize64 /dev/volume) /dev/volume /dev/zero; then echo empty; else exit 1; fi"
	for scenario, tc := range map[string]struct {
		class               string
		kind                realnode.DiskKind
		block               bool
		first, second, next string
		readBack            string
	}{
		"a mounted file system": {class: "files", kind: realnode.Ext4, first: write, second: "cat /data/volume/word /data/volume/a/.hidden", readBack: "secret\ndeep\n", next: empty},
		"a directory":           {class: "folders", kind: realnode.Directory, first: write, second: "cat /data/volume/word /data/volume/a/.hidden", readBack: "secret\ndeep\n", next: empty},
		"a block device that kubelet formats": {class: "formatted", kind: realnode.Block,
			first: write, second: "cat /data/volume/word /data/volume/a/.hidden", readBack: "secret\ndeep\n", next: empty},
		"a block device": {class: "blocks", kind: realnode.Block, block: true,
			first:    device + "; echo secret | dd of=/dev/volume bs=512 seek=40000 conv=sync,fsync 2>/dev/null",
			second:   "dd if=/dev/volume bs=512 skip=40000 count=1 2>/dev/null | head -c 7",
			readBack: "secret\n", next: device},
	} {
		t.Run(scenario, func(t *testing.T) {
			site.Parallel(t)
			e := site.New(t)
			path := slot(tc.class, "disk")
			disk := realnode.Disk{Kind: tc.kind, Path: path}
			if tc.kind != realnode.Directory {
				disk.Size = size
			}
			plug(e, "three", disk)
			before := published(e, "three", path)
			claim := func() {
				if tc.block {
					e.Create(blockClaim(e, "volume", tc.class))
				} else {
					e.Create(e.Claim("volume", tc.class))
				}
			}
			run := func(name, script string) string {
				pod := e.Shell(name, script)
				if tc.block {
					pod = withDevice(pod, "volume")
				} else {
					pod = e.Shell(name, script, "volume")
				}
				printed, node := finish(e, by(ours, pod))
				if node != "three" {
					t.Errorf("pod %s ran on node %s, want three, where the disk is", name, node)
				}
				return printed
			}
			claim()
			if got := run("first", tc.first); got != "empty\n" {
				t.Errorf("the first pod prints %q, want empty", got)
			}
			if got := run("second", tc.second); got != tc.readBack {
				t.Errorf("the next pod reads %q, want %q", got, tc.readBack)
			}
			giveBack(e, "volume")
			after := published(e, "three", path, before)
			claimGone(e, "volume")
			claim()
			if got := run("next", tc.next); got != "empty\n" {
				t.Errorf("the next tenant prints %q, want empty", got)
			}
			if pvc := bound(e, "volume"); pvc.Spec.VolumeName != after.Name {
				t.Errorf("the next tenant has volume %s, want %s, which was cleaned", pvc.Spec.VolumeName, after.Name)
			}
		})
	}
}

// TestOwners: after recycling, a volume that a user's pod with an fsGroup has used is usable by
// any other user, as when it was new.
func TestOwners(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	path := slot("owned", "disk")
	plug(e, "one", realnode.Disk{Kind: realnode.Ext4, Path: path, Size: 24 << 20})
	first := published(e, "one", path)
	look := func() string { return on(e, e.Cluster.Node("one"), "stat -c %u:%g:%a "+path) }
	day := look()
	user := func(name string, id int64, script string) *corev1.Pod {
		pod := by(ours, e.Shell(name, script, "mine"))
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{
			RunAsUser: &id, RunAsGroup: &id, RunAsNonRoot: new(true), FSGroup: new(id + 1),
		}
		return pod
	}
	const script = `test -z "$(find /data/mine -mindepth 1 ! -name lost+found)" || { echo "something is left"; exit 1; }
echo secret >/data/mine/word && chmod 600 /data/mine/word && stat -c '%u %g' /data/mine/word && stat -c '%g %A' /data/mine`
	e.Create(e.Claim("mine", "owned"))
	if got, _ := finish(e, user("first", 1000, script)); got != "1000 1001\n1001 drwxrwsr-x\n" {
		t.Errorf("the first user's file and volume are %q, want 1000 1001 and 1001 drwxrwsr-x", got)
	}
	giveBack(e, "mine")
	published(e, "one", path, first)
	if got := look(); got != day {
		t.Errorf("owner, group and mode of the recycled volume are %q, want %q as on the first day", got, day)
	}
	claimGone(e, "mine")
	e.Create(e.Claim("mine", "owned"))
	if got, _ := finish(e, user("second", 3000, script)); got != "3000 3001\n3001 drwxrwsr-x\n" {
		t.Errorf("the second user's file and volume are %q, want 3000 3001 and 3001 drwxrwsr-x", got)
	}
}

// claimGone waits until a claim is deleted.
func claimGone(e *frame.Env, claim string) {
	e.T.Helper()
	e.WaitGone("persistentvolumeclaim/" + claim)
}

// bound waits until a claim has its volume.
func bound(e *frame.Env, claim string) *corev1.PersistentVolumeClaim {
	e.T.Helper()
	return e.WaitPVC(claim, "bound", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
}
