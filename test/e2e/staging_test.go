// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/e2e/frame"
)

// TestStaging: volumes of PavProvisioners on real kubelets.
func TestStaging(t *testing.T) {
	stagingSite.Group(t)
	for name, test := range map[string]func(*testing.T){
		"directory": testStagingDirectory, "fuse": testStagingFUSE, "block": testStagingBlock, "moved": testStagingMoved,
		"fails": testStagingFails, "escapes": testStagingEscapes,
		"drained": testStagingDrained, "rebooted": testStagingRebooted, "lost": testStagingLost, "ends": testStagingEnds,
		"slow": testStagingSlow, "shared": testStagingShared, "hangs": testStagingHangs,
		"unreachable": testStagingUnreachable, "registered again": testStagingRegisteredAgain, "deleted": testStagingDeleted,
		"stuck": testStagingStuck, "owned": testStagingOwned, "no service": testStagingNoService,
		"hello": testStagingHello, "object store": testStagingObjectStore, "encryption": testStagingEncryption,
	} {
		t.Run(name, func(t *testing.T) { stagingSite.Parallel(t); test(t) })
	}
}

// boundStore is the script of a staging pod that mounts a folder of the store, and ends. Its mount stays, until
// the node service unmounts it.
const boundStore = `mkdir -p /store/$HANDLE /pav/volume; mount --bind /store/$HANDLE /pav/volume`

// testStagingDirectory: pods of one node share a volume, also with a pod of another node. One has it
// read-only. A pod has it beside a volume that no CSI driver has.
func testStagingDirectory(t *testing.T) {
	s := newStaging(t, boundStore, "true")
	volume := s.claim("c", readWriteMany)
	s.pod("writes", stagingOne, "echo hello >/data/c/file && sleep 1000", nil, "c")
	s.WaitPod("writes", "running", running)
	s.pod("reads", stagingOne, "cat /data/c/file; echo x >/data/c/other && exit 1; exit 0", func(p *corev1.Pod) {
		p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	}, "c")
	if got := s.logs("reads"); !strings.Contains(got, "hello") || !strings.Contains(got, "Read-only file system") {
		t.Errorf("the pod that reads wrote %q", got)
	}
	s.Create(
		builders.MakePV(s.Name("beside")).Class(s.Name("beside")).Source(corev1.PersistentVolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/stowage/" + s.Name("beside"), Type: new(corev1.HostPathDirectoryOrCreate)},
		}).Obj(),
		s.Claim("beside", s.Name("beside")),
	)
	s.pod("elsewhere", stagingTwo, "echo more >/data/c/more; cp /data/c/more /data/beside; cat /data/beside/more", nil, "c", "beside")
	s.logs("elsewhere")
	s.remove("writes", "reads", "elsewhere")
	s.unstaged(volume)
}

// served is the script of a staging pod that serves a file system, and runs for as long as it is staged.
const served = `mkdir -p /store/$HANDLE /pav/volume; exec bindfs -f -o allow_other,fsname=store /store/$HANDLE /pav/volume & pid=$!
until grep -q " /pav/volume " /proc/self/mountinfo; do sleep 0.1; done; touch /pav/ready; trap 'kill $pid' TERM; wait $pid; wait $pid`

// testStagingFUSE: a staging pod serves a file system. Its server is killed while a pod uses the volume,
// which the next pod has again.
func testStagingFUSE(t *testing.T) {
	s := newStaging(t, served, "true")
	volume := s.claim("c", nil)
	s.pod("first", stagingOne, "echo hello >/data/c/file; stat -f -c %T /data/c; sleep 1000", nil, "c")
	s.WaitPod("first", "running", running)
	frame.Wait(s.Env, s.clients.Stagings, stowage.PavStagingName(s.Namespace, volume, stagingOne), "staged", func(p *stowage.PavStaging) bool { return p.Status.Phase == stowage.PavStagingStaged })
	s.on(stagingOne, `pkill -KILL -f "fsname=store /store/$1"`, volume)
	s.WaitEvent(s.Namespace, "c", string(rules.StagingFailed), "")
	s.remove("first")
	s.pod("second", stagingOne, "cat /data/c/file", nil, "c")
	if diff := cmp.Diff("hello\n", s.logs("second")); diff != "" {
		t.Errorf("the second pod read (-want +got):\n%s", diff)
	}
	s.remove("second")
	s.unstaged(volume)
}

// testStagingOwned: kubelet gives a volume to the group of a pod if the provisioner says so.
func testStagingOwned(t *testing.T) {
	s := newStaging(t, boundStore, "true", "  backoff:", "  fsGroupPolicy: File\n  backoff:")
	volume := s.claim("c", nil)
	s.pod("writes", stagingOne, "echo hello >/data/c/file; stat -c %g /data/c/file", func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000)), FSGroup: new(int64(2000))}
	}, "c")
	if diff := cmp.Diff("2000\n", s.logs("writes")); diff != "" {
		t.Errorf("group of a file (-want +got):\n%s", diff)
	}
	s.remove("writes")
	s.unstaged(volume)
}

// testStagingBlock: a block volume is a loop device, which keeps its content. A pod that has it read-only
// needs a device that is read-only.
func testStagingBlock(t *testing.T) {
	s := newStaging(t, `[ -e /store/$HANDLE ] || truncate -s 16M /store/$HANDLE
[ -e /store/$HANDLE.ro ] && flags=-r
device=$(/usr/sbin/losetup $flags -f --show /store/$HANDLE)
mknod /pav/volume b $(stat -c '0x%t 0x%T' $device)`, `/usr/sbin/losetup -j /store/$HANDLE | cut -d: -f1 | while read -r device; do /usr/sbin/losetup -d $device; done`)
	t.Cleanup(func() { // of a failed test
		if t.Failed() {
			s.on(stagingOne, `losetup -l --noheadings --output=NAME,BACK-FILE | while read -r device file; do case $file in */pvc-*) losetup -d $device; esac; done`)
		}
	})
	block := corev1.PersistentVolumeBlock
	volume := s.claim("c", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block })
	device := func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = nil
		p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "c", DevicePath: "/dev/volume"}}
	}
	s.pod("writes", stagingOne, "echo hello | dd of=/dev/volume conv=fsync", device, "c")
	s.logs("writes")
	s.remove("writes")
	s.unstaged(volume)
	s.pod("reads", stagingOne, "head -n 1 /dev/volume; blockdev --getsize64 /dev/volume", device, "c")
	if diff := cmp.Diff("hello\n16777216\n", s.logs("reads")); diff != "" {
		t.Errorf("the second pod read (-want +got):\n%s", diff)
	}
	s.remove("reads")
	s.unstaged(volume)
	readOnly := func(p *corev1.Pod) {
		device(p)
		p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	}
	s.pod("refused", stagingOne, "true", readOnly, "c")
	s.WaitEvent(s.Namespace, "refused", "FailedMapVolume", "can be written to, but the volume is to be read-only")
	s.remove("refused")
	s.unstaged(volume)
	s.on(stagingOne, `touch /var/lib/stowage/store/"$1".ro`, volume)
	s.pod("read-only", stagingOne, "head -n 1 /dev/volume; echo x >/dev/volume || echo refused", readOnly, "c")
	if got := s.logs("read-only"); !strings.Contains(got, "hello\n") || !strings.Contains(got, "refused\n") {
		t.Errorf("the pod with a read-only device wrote %q", got)
	}
	s.remove("read-only")
	s.unstaged(volume)
}

// testStagingMoved: a volume that one node can use at a time follows its pod to another node.
func testStagingMoved(t *testing.T) {
	s := newStaging(t, boundStore, "true")
	volume := s.claim("c", nil)
	s.pod("first", stagingOne, "echo hello >/data/c/file; sleep 1000", nil, "c")
	s.WaitPod("first", "running", running)
	s.pod("second", stagingTwo, "echo hello >/data/c/file", nil, "c")
	s.waitsFor(volume, stagingOne)
	s.remove("first")
	s.logs("second")
	s.remove("second")
	s.unstaged(volume)
}

// testStagingEnds: a volume that is used is unstaged by the revision that staged it, whatever happens to its
// provisioner, its CSIDriver and its claim.
func testStagingEnds(t *testing.T) {
	s := newStaging(t, boundStore, "touch /store/$HANDLE/unstaged")
	volume := s.claim("c", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	s.pod("uses", stagingOne, "sleep 10000", nil, "c")
	s.WaitPod("uses", "running", running)
	s.Kubectl("patch", "pav", s.Namespace, "--type=merge", `--patch={"spec":{"volumeUnstaging":{"podTemplate":"{{ undefined }}"}}}`)
	frame.Wait(s.Env, s.clients.Provisioners, s.Namespace, "accepted", func(p *stowage.PavProvisioner) bool {
		return p.Status.ObservedGeneration == 2 && meta.IsStatusConditionTrue(p.Status.Conditions, stowage.ConditionAccepted)
	})
	s.Kubectl("delete", "--wait=false", "pav/"+s.Namespace)
	s.Kubectl("delete", "csidriver", s.Namespace)
	s.Kubectl("delete", "--wait=false", "pvc/c")
	s.remove("uses")
	s.unstaged(volume)
	s.on(stagingOne, `test -e /var/lib/stowage/store/"$1"/unstaged`, volume)
	s.WaitGone("pav/" + s.Namespace)
	s.WaitGone("pv/" + volume)
}

// testStagingEscapes: a volume is never a file of the node or another volume.
func testStagingEscapes(t *testing.T) {
	for row, tc := range map[string]struct{ script, message string }{
		"an absolute link":          {"ln -s /etc /pav/volume", "is a link to a path that does not exist inside of /pav"},
		"a link of procfs":          {"ln -s /proc/1/root /pav/volume", "is a link to a path that does not exist inside of /pav"},
		"a regular file":            {"touch /pav/volume", "must be a directory"},
		"a device for a directory":  {"mknod /pav/volume b 7 0", "must be a Directory"},
		"a character device":        {"mknod /pav/volume c 1 3", "must be a directory or a block device"},
		"nothing":                   {"true", "/pav/volume does not exist"},
		"a link to a mounted /proc": {"mkdir /pav/p; ln -s p/1/root /pav/volume; mount -t proc proc /pav/p", "/pav/volume"},
	} {
		t.Run(row, func(t *testing.T) {
			s := newStaging(t, tc.script, "true")
			volume := s.claim("c", nil)
			s.pod("waits", stagingOne, "true", nil, "c")
			s.WaitEvent(s.Namespace, "waits", "FailedMount", tc.message)
			s.remove("waits")
			s.unstaged(volume)
		})
	}
}
