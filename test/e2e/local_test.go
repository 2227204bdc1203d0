// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/cluster/realnode"
)

// TestKindsOfVolumes: volumes that an administrator wrote, of a directory, a mounted file system,
// one in memory and a block device that kubelet formats. A pod that uses all four runs on their
// node. The next pod reads what it wrote, and so do two pods at the same time.
func TestKindsOfVolumes(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	const size = 24 << 20
	folder := "/mnt/kinds-" + e.Namespace + "/"
	disks := []realnode.Disk{
		{Kind: realnode.Directory, Path: folder + "directory"},
		{Kind: realnode.Ext4, Path: folder + "mount", Size: size},
		{Kind: realnode.Tmpfs, Path: folder + "memory", Size: size},
		{Kind: realnode.Block, Path: folder + "device", Size: size},
	}
	plug(e, "two", disks...)
	class := e.Name("kinds")
	e.Create(e.Class(class))
	kinds := []string{"directory", "mount", "memory", "device"}
	for _, kind := range kinds {
		pv := e.LocalVolume(kind, class, "", folder+kind)
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"two"}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: e.Namespace, Name: kind} // each claim its kind
		e.Create(pv, e.Claim(kind, class))
	}
	const all = "for kind in directory mount memory device; do "
	pod := func(name, script string) *corev1.Pod { return by(ours, e.Shell(name, script, kinds...)) }
	_, node := finish(e, pod("first", all+"echo of $kind >/data/$kind/word && mkfifo /data/$kind/pipe || exit 1; done"))
	if node != "two" {
		t.Errorf("the first pod ran on node %s, want two, where its volumes are", node)
	}
	const words = "of directory\nof mount\nof memory\nof device\n"
	if got, node := finish(e, pod("second", all+"cat /data/$kind/word; done")); got != words || node != "two" {
		t.Errorf("the next pod reads %q on node %s, want %q on two", got, node, words)
	}
	// Neither ends without the other.
	e.Create(pod("writer", all+"cat /data/$kind/word >/data/$kind/pipe; done"), by(corev1.DefaultSchedulerName, e.Shell("reader", all+"cat /data/$kind/pipe; done", kinds...)))
	if got, _ := finished(e, "reader"); got != words {
		t.Errorf("of two pods at the same time one reads %q of the other, want %q", got, words)
	}
	finished(e, "writer")
	on(e, e.Cluster.Node("two"), "grep -q 'of directory' "+folder+"directory/word")
}

// TestNoPath: a volume whose path does not exist is not mounted, and kubelet reports why. The pod
// runs once the path exists.
func TestNoPath(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	class, path := e.Name("nopath"), "/mnt/nopath-"+e.Namespace
	pv := e.LocalVolume("none", class, "", path)
	pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"one"}
	e.Create(e.Class(class), pv, e.Claim("none", class), by(ours, e.Shell("waits", "echo there >/data/none/word; cat /data/none/word", "none")))
	e.WaitEvent(e.Namespace, "waits", "FailedMount", `path "`+path+`" does not exist`)
	if pod := e.WaitPod("waits", "placed", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }); pod.Status.Phase != corev1.PodPending {
		t.Errorf("the pod is %s without its volume, want Pending", pod.Status.Phase)
	}
	on(e, e.Cluster.Node("one"), "mkdir "+path)
	e.T.Cleanup(func() { on(e, e.Cluster.Node("one"), "rm -rf "+path) })
	if got, _ := finished(e, "waits"); got != "there\n" {
		t.Errorf("the pod printed %q, want what it wrote", got)
	}
}

// TestWrongNode: a pod whose nodeName was set against its volume's affinity does not run, and
// kubelet reports why. The data is unchanged.
func TestWrongNode(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	class, path := e.Name("wrong"), "/mnt/wrong-"+e.Namespace
	plug(e, "one", realnode.Disk{Kind: realnode.Directory, Path: path})
	plug(e, "two", realnode.Disk{Kind: realnode.Directory, Path: path}) // the path alone is not enough
	pv := e.LocalVolume("volume", class, "", path)
	pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"one"}
	e.Create(e.Class(class), pv, e.Claim("claim", class))
	if _, node := finish(e, by(ours, e.Shell("first", "echo first >/data/claim/word", "claim"))); node != "one" {
		t.Errorf("the first pod ran on node %s, want one", node)
	}
	forced := e.Shell("forced", "echo forced >/data/claim/word", "claim")
	forced.Spec.NodeName = "two"
	e.Create(forced)
	e.WaitEvent(e.Namespace, "forced", "FailedMount", "NodeAffinity check failed")
	if pod := e.WaitPod("forced", "there", func(*corev1.Pod) bool { return true }); ended(pod) {
		t.Errorf("the pod that was forced is %s", pod.Status.Phase)
	}
	remove(e, "forced")
	gone(e, "forced")
	on(e, e.Cluster.Node("two"), "test -z \"$(ls -A "+path+")\"")
	if got, _ := finish(e, e.Shell("second", "cat /data/claim/word", "claim")); got != "first\n" {
		t.Errorf("the next pod reads %q, want what the first one wrote", got)
	}
}
