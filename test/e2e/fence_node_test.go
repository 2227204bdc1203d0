// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// TestFenceOnNode: kubelet neither formats nor mounts a device that is not proven, while mkfs runs or
// is killed, while kubelet is down, and after a power cut with exchanged disks. Pods that run keep
// their device.
func TestFenceOnNode(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	n := e.AddNodes(frame.Node("a"))[0]
	e.Do(install.MakeFolders(e.Context, n, classes))
	xfs := newFenced(e, n, e.Claim("xfs", "fenced-xfs"), 320<<20)
	data := newFenced(e, n, e.Claim("data", "fenced"), 64<<20)
	raw := newFenced(e, n, blockClaim(e, "raw", "fenced-raw"), 16<<20)
	finish(e, data.pod(e.Shell("first", "echo secret >/data/data/word && sync", "data")))

	interruptedMkfs(xfs)
	kubeletDown(data, xfs)
	runningPod(data)
	rawDevice(raw)
	powerCut(data)
}

// fenced is a bound volume on a device of a node.
type fenced struct {
	e *frame.Env
	n *realnode.Node
	// entry is the path of its slot, which leads to device, and after move to blank.
	entry, device, blank string
	pv                   *corev1.PersistentVolume
}

// newFenced publishes a device and binds its volume to a claim.
func newFenced(e *frame.Env, n *realnode.Node, claim *corev1.PersistentVolumeClaim, size int64) *fenced {
	e.T.Helper()
	f := &fenced{e: e, n: n, entry: slot(*claim.Spec.StorageClassName, claim.Name)}
	for name, device := range map[string]*string{claim.Name: &f.device, claim.Name + "-blank": &f.blank} {
		var err error
		*device, err = n.AddDisk(e.Context, realnode.Disk{Kind: realnode.Block, Path: "/mnt/" + name, Size: size})
		e.Do(err)
	}
	f.repair()
	f.pv = published(e, n.Name, f.entry)
	claim.Spec.VolumeName = f.pv.Name
	e.Create(claim)
	f.wait(stowage.LinkPresent)
	return f
}

// pod assigns a pod to the node, as before a boot: the scheduler refuses volumes of disks that are
// exchanged.
func (f *fenced) pod(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = f.n.Name
	return pod
}

func (f *fenced) wait(link string) { f.e.T.Helper(); waitLink(f.e, f.n.Name, f.pv.Name, link) }

// move exchanges the disks, and returns when the link is withheld.
func (f *fenced) move() {
	f.e.T.Helper()
	on(f.e, f.n, "ln -sfn "+f.blank+" "+f.entry)
	f.wait(stowage.LinkWithheld)
}

func (f *fenced) repair() { f.e.T.Helper(); on(f.e, f.n, "ln -sfn "+f.device+" "+f.entry) }

// refused returns when kubelet has found no device for a pod, and checks that devices are blank.
func (f *fenced) refused(pod string, devices ...string) {
	f.e.T.Helper()
	f.e.WaitEvent(f.e.Namespace, pod, "FailedMount", "does not exist")
	for _, device := range devices {
		on(f.e, f.n, "cmp -n $(blockdev --getsize64 "+device+") "+device+" /dev/zero")
	}
}

// mkfs replaces mkfs.xfs of a node. It waits at a FIFO, or is killed while the superblock says that
// it is in progress.
const mkfs = `#!/bin/sh
for device; do :; done
case $(cat /mnt/mkfs.does) in
wait) echo >/mnt/mkfs.begun; cat /mnt/mkfs.go; exec /mnt/mkfs.real "$@" ;;
die) /mnt/mkfs.real "$@" && xfs_db -x -c 'sb 0' -c 'write -d inprogress 1' "$device"; kill -9 $$ ;;
esac
`

// interruptedMkfs: at the first mount mkfs is missing, loses the link, and is killed, after which its
// volume needs an administrator.
func interruptedMkfs(f *fenced) {
	f.e.T.Log("mkfs is missing")
	on(f.e, f.n, "cp /usr/sbin/mkfs.xfs /mnt/mkfs.real && mount --bind /dev/null /usr/sbin/mkfs.xfs")
	f.e.Create(f.pod(f.e.Shell("formats", "echo formatted >/data/xfs/word && cat /data/xfs/word", "xfs")))
	f.e.WaitEvent(f.e.Namespace, "formats", "FailedMount", "executable file not found")

	f.e.T.Log("The link is withheld while mkfs runs")
	_, err := f.n.Run(f.e.Context, strings.NewReader(mkfs), "sh", "-c", "cat >/mnt/mkfs && chmod +x /mnt/mkfs && mkfifo /mnt/mkfs.begun /mnt/mkfs.go && echo wait >/mnt/mkfs.does")
	f.e.Do(err)
	on(f.e, f.n, "umount /usr/sbin/mkfs.xfs && mount --bind /mnt/mkfs /usr/sbin/mkfs.xfs && cat /mnt/mkfs.begun")
	f.move()
	on(f.e, f.n, "echo die >/mnt/mkfs.does && echo >/mnt/mkfs.go")
	f.refused("formats", f.device, f.blank)

	f.e.T.Log("mkfs is killed")
	f.repair()
	f.e.WaitEvent(metav1.NamespaceDefault, f.pv.Name, "FilesystemChanged", "an interrupted mkfs may leave it")
	f.wait(stowage.LinkWithheld)
	on(f.e, f.n, "umount /usr/sbin/mkfs.xfs")
}

// kubeletDown: the link of one volume is withheld, and that of another is restored, while kubelet is
// down.
func kubeletDown(f, restored *fenced) {
	f.e.T.Log("The first pod is read-only")
	reads := f.pod(f.e.Shell("reads", "cat /data/data/word", "data"))
	reads.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	if got, _ := finish(f.e, reads); got != "secret\n" {
		f.e.T.Errorf("the pod that is read-only reads %q, want secret", got)
	}
	gone(f.e, "reads")
	f.e.Do(f.n.WaitUnmounted(f.e.Context, f.device)) // until then later pods find it read-only, too

	f.e.T.Log("The link is withheld while kubelet is down")
	f.e.Do(f.n.Kubelet().Kill())
	f.move()
	on(f.e, f.n, "wipefs --all --quiet "+restored.device)
	restored.wait(stowage.LinkPresent)
	f.e.Create(f.pod(f.e.Shell("next", "echo more >>/data/data/word && sync && cat /data/data/word", "data")))
	f.e.Do(f.n.Kubelet().Start(f.e.Context))
	f.refused("next", f.blank)
	f.repair()
	if got, _ := finished(f.e, "next"); got != "secret\nmore\n" {
		f.e.T.Errorf("the pod that waited reads %q, want secret and more", got)
	}
	gone(f.e, "next")
	if got, _ := finished(f.e, "formats"); got != "formatted\n" {
		f.e.T.Errorf("the pod whose mkfs was interrupted reads %q, want formatted", got)
	}
}

// runningPod: while the link is withheld, a second pod waits, and the first one keeps its device, also
// when kubelet is restarted, until it is deleted.
func runningPod(f *fenced) {
	f.e.T.Log("A pod runs while its link is withheld")
	f.e.Create(f.pod(f.e.Shell("runs", "exec sleep 100000", "data")))
	f.e.WaitPod("runs", "ready", frame.Ready)
	f.move()
	f.e.Create(f.pod(f.e.Shell("second", "cat /data/data/word", "data")))
	f.refused("second", f.blank)
	remove(f.e, "second")
	gone(f.e, "second")
	f.e.Do(f.n.Kubelet().Restart(f.e.Context))
	f.refused("runs", f.blank)
	if got := f.e.Exec("runs", "cat", "/data/data/word"); got != "secret\nmore\n" {
		f.e.T.Errorf("the pod that runs reads %q, want secret and more", got)
	}
	remove(f.e, "runs")
	gone(f.e, "runs")
	closed(f.e, f.n, f.device)
	f.repair()
}

// rawDevice: while the link is withheld, a container that is restarted keeps its raw device, another
// pod waits, and kubelet releases the device of a pod that is deleted.
func rawDevice(f *fenced) {
	f.e.T.Log("A raw device")
	finish(f.e, f.pod(withDevice(f.e.Shell("writes", "echo secret | dd of=/dev/raw conv=sync,fsync 2>/dev/null"), "raw")))
	holds := f.pod(withDevice(f.e.Shell("holds", "trap 'exit 0' TERM; while :; do sleep 0.2; done"), "raw"))
	holds.Spec.RestartPolicy = corev1.RestartPolicyAlways
	f.e.Create(holds)
	f.e.WaitPod("holds", "ready", frame.Ready)
	f.move()
	f.e.Exec("holds", "kill", "1")
	f.e.WaitPod("holds", "restarted", restarted)
	if got := f.e.Exec("holds", "head", "-c", "6", "/dev/raw"); got != "secret" {
		f.e.T.Errorf("the restarted container reads %q, want secret", got)
	}
	f.e.Create(f.pod(withDevice(f.e.Shell("waits", "head -c 6 /dev/raw"), "raw")))
	f.e.WaitEvent(f.e.Namespace, "waits", "FailedMapVolume", "no such file or directory")
	for _, pod := range []string{"waits", "holds"} {
		remove(f.e, pod)
		gone(f.e, pod)
	}
	giveBack(f.e, "raw")
	f.repair()
	published(f.e, f.n.Name, f.entry, f.pv)
}

// restarted reports whether the container of a pod was restarted, and is ready.
func restarted(pod *corev1.Pod) bool {
	return frame.Ready(pod) && pod.Status.ContainerStatuses[0].RestartCount > 0
}

// powerCut: the node loses its power, and its disks are exchanged when it boots.
func powerCut(f *fenced) {
	f.e.T.Log("The disks are exchanged at a power cut")
	pod := f.pod(f.e.Shell("boots", "cat /data/data/word && exec sleep 100000", "data"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	f.e.Create(pod)
	f.e.WaitPod("boots", "ready", frame.Ready)
	f.move()
	f.e.Do(f.n.Kill())
	f.e.Do(f.n.Start(f.e.Context))
	f.refused("boots", f.blank)
	f.repair()
	f.e.WaitPod("boots", "restarted", restarted)
	if got := f.e.Exec("boots", "cat", "/data/data/word"); got != "secret\nmore\n" {
		f.e.T.Errorf("after the power cut the pod reads %q, want secret and more", got)
	}
}
