// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

const (
	writeSecret = "echo secret >/data/volume/word && sync"
	readSecret  = "cat /data/volume/word"
	zeroSuper   = "dd if=/dev/zero of=%[1]s bs=4096 count=1 conv=fsync 2>/dev/null"
)

// TestFence: kubelet never formats or mounts a device that is not proven to be the disk of the
// bound volume. Each time the pod waits, the device is unchanged, and the pod starts when the
// device is repaired.
func TestFence(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	path := slot("fenced", "disk")
	n := e.Cluster.Node("one")
	device, blank := attach(e, n, "/mnt/fenced"), attach(e, n, "/mnt/blank")
	entry := func(device string) string { return "ln -sfn " + device + " " + path }
	on(e, n, entry(device))
	t.Cleanup(func() {
		deletePods(e)
		_, _ = n.Run(e.Context, nil, "rm", path)
	})
	pv := published(e, "one", path)
	claim := e.Claim("volume", "fenced")
	claim.Spec.VolumeName = pv.Name
	e.Create(claim)
	finish(e, by(ours, e.Shell("first", writeSecret, "volume")))
	gone(e, "first")
	waitLink(e, "one", pv.Name, stowage.LinkPresent)
	const save, restore = "cp --sparse=always /mnt/fenced /mnt/saved && ", "cat /mnt/saved >/mnt/fenced && blockdev --flushbufs "
	for i, hazard := range []struct{ name, damage, on, repair string }{
		{"the entry leads to a blank device", entry(blank), "/mnt/blank", entry(device)},
		{"the superblock is missing", save + fmt.Sprintf(zeroSuper, device), "/mnt/fenced", restore + device},
		{"the device answers with errors", save + "truncate -s 1024 /mnt/fenced && blockdev --flushbufs " + device, "/mnt/fenced", restore + device},
	} {
		t.Log(hazard.name)
		closed(e, n, device)
		on(e, n, hazard.damage)
		waitLink(e, "one", pv.Name, stowage.LinkWithheld)
		before := on(e, n, "sha256sum <"+hazard.on)
		pod := fmt.Sprintf("next-%d", i)
		assigned := e.Shell(pod, readSecret, "volume")
		assigned.Spec.NodeName = "one" // as before a boot: the scheduler refuses the volume
		e.Create(assigned)
		e.WaitEvent(e.Namespace, pod, "", "does not exist")
		if i == 1 { // as after a boot: the pod is assigned, and the provisioner has just started
			replaceProvisioner(e, "one")
			on(e, n, "! test -e "+pv.Spec.Local.Path)
		}
		if after := on(e, n, "sha256sum <"+hazard.on); after != before {
			t.Error("the device has changed")
		}
		on(e, n, hazard.repair)
		if got, _ := finished(e, pod); got != "secret\n" {
			t.Errorf("after the repair the pod reads %q, want secret", got)
		}
		gone(e, pod)
	}
}

// TestWithoutFence is TestFence's control: kubelet formats the device of a bound volume whose path
// leads to the device directly.
func TestWithoutFence(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	path := "/mnt/by-hand"
	plug(e, "one", realnode.Disk{Kind: realnode.Block, Path: path, Size: 64 << 20})
	n := e.Cluster.Node("one")
	device := strings.TrimSpace(on(e, n, "readlink -f "+path))
	name := e.Name("by-hand")
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              name,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"one"}}},
			}}}},
		},
	}
	if _, err := e.Client.CoreV1().PersistentVolumes().Create(e.Context, pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Client.CoreV1().PersistentVolumes().Delete(e.Context, name, metav1.DeleteOptions{}) })
	claim := e.Claim("volume", name)
	claim.Spec.VolumeName = name
	e.Create(claim)
	finish(e, by(ours, e.Shell("first", writeSecret, "volume")))
	gone(e, "first")
	closed(e, n, device)
	on(e, n, fmt.Sprintf(zeroSuper, device))
	if got, _ := finish(e, by(ours, e.Shell("next", readSecret+" 2>/dev/null || echo lost", "volume"))); got != "lost\n" {
		t.Errorf("the pod reads %q: kubelet does not format the device of a bound volume any more, so the fence is not needed", got)
	}
}

// attach makes a device of a new file on a node, which other commands there can change.
func attach(e *frame.Env, n *realnode.Node, file string) string {
	e.T.Helper()
	device := strings.TrimSpace(on(e, n, "truncate -s 64M "+file+" && losetup --find --show "+file))
	e.T.Cleanup(func() { _, _ = n.Run(e.Context, nil, "losetup", "--detach", device) })
	return device
}

// closed returns when a node has unmounted the device of a volume whose pods are deleted. The kernel
// writes the superblock only after the mount has disappeared, and has another mount wait for that.
func closed(e *frame.Env, n *realnode.Node, device string) {
	e.T.Helper()
	e.Do(n.WaitUnmounted(e.Context, device))
	on(e, n, fmt.Sprintf("unshare --mount sh -c 'mount %s /mnt && umount /mnt'", device))
}

// waitLink waits until the report of a node shows the state of a volume's link.
func waitLink(e *frame.Env, node, volume, link string) {
	e.T.Helper()
	reports, err := diskreports.NewClient(e.Cluster.RESTConfig())
	e.Do(err)
	what := "that shows the link of " + volume + " " + link
	frame.Wait(e, reports, stowage.PageName(node, 1), what, func(r *stowage.LocalDiskReport) bool {
		return slices.ContainsFunc(r.Status.Entries, func(entry stowage.Entry) bool { return entry.Volume == volume && entry.Link == link })
	})
}

// replaceProvisioner deletes the pod of a node's provisioner and returns when the next one is ready.
func replaceProvisioner(e *frame.Env, node string) {
	e.T.Helper()
	old := provisionerOf(e, node)
	pods := e.Client.CoreV1().Pods(install.Namespace)
	e.Do(pods.Delete(e.Context, old.Name, metav1.DeleteOptions{}))
	frame.Wait(e, pods, "", "the next provisioner of node "+node+" is ready", func(p *corev1.Pod) bool {
		return p.UID != old.UID && p.Spec.NodeName == node && p.Labels["app.kubernetes.io/name"] == "stowage-provisioner" && frame.Ready(p)
	})
}
