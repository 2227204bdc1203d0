// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// alone is a cluster whose only scheduler is ours, and where Jobs clean disks.
var alone = frame.NewSite(install.Options(install.Config{
	Folders: []string{"crd", "provisioner", "controller", "scheduler/only"},
	Files:   []string{"controller/cleaning-jobs.yaml"},
	Nodes:   []realnode.NodeSpec{frame.Node("one"), frame.Node("two")},
	Classes: []install.Class{
		class("files", nil),
		class("blocks", map[string]any{"volumeMode": "Block"}),
		class("pairs", nil),
	},
	Provisioner: map[string]string{"useJobForCleaning": "true"},
	Configs: map[string]string{install.Controller: `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
cleaningJobs: {enabled: true}
`},
	Cluster: func(c *realnode.Config) { c.NoScheduler = true },
	Before:  runOurs,
}))

// TestOnlyScheduler: our scheduler, instead of kube-scheduler, places the pods of all workloads,
// including our own and those with volumes.
func TestOnlyScheduler(t *testing.T) {
	alone.Parallel(t)
	e := alone.New(t)
	plug(e, "two", realnode.Disk{Kind: realnode.Ext4, Path: slot("pairs", "small"), Size: 16 << 20},
		realnode.Disk{Kind: realnode.Ext4, Path: slot("pairs", "large"), Size: 64 << 20})
	published(e, "two", slot("pairs", "small"))
	published(e, "two", slot("pairs", "large"))
	writeRead(e, "pairs", "two")
}

// TestCleaningJobs: Jobs clean a file system and a block device, each on its node, and the next
// pods see none of the data.
func TestCleaningJobs(t *testing.T) {
	alone.Parallel(t)
	e := alone.New(t)
	files, blocks := slot("files", "disk"), slot("blocks", "disk")
	plug(e, "one", realnode.Disk{Kind: realnode.Ext4, Path: files, Size: 16 << 20}, realnode.Disk{Kind: realnode.Block, Path: blocks, Size: 16 << 20})
	before := []*corev1.PersistentVolume{published(e, "one", files), published(e, "one", blocks)}
	pod := func(name, script string) *corev1.Pod { return withDevice(e.Shell(name, script, "files"), "blocks") }
	e.Create(e.Claim("files", "files"), blockClaim(e, "blocks", "blocks"))
	const write = "echo secret >/data/files/word; echo secret | dd of=/dev/blocks bs=512 seek=9000 conv=sync,fsync 2>/dev/null; cat /data/files/word"
	if got, _ := finish(e, pod("first", write)); got != "secret\n" {
		t.Errorf("the first pod reads %q", got)
	}
	giveBack(e, "files")
	giveBack(e, "blocks")
	for _, path := range []string{files, blocks} {
		published(e, "one", path, before...)
	}
	claimGone(e, "files")
	claimGone(e, "blocks")
	jobs, err := e.Client.BatchV1().Jobs(install.Namespace).List(e.Context, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=stowage-cleaning"})
	e.Do(err)
	for _, pv := range before {
		if !cleaned(jobs.Items, pv) {
			t.Errorf("no Job has cleaned volume %s at %s; there are %d Jobs", pv.Name, pv.Spec.Local.Path, len(jobs.Items))
		}
	}
	e.Create(e.Claim("files", "files"), blockClaim(e, "blocks", "blocks"))
	const look = "ls -A /data/files; cmp -n 16777216 /dev/blocks /dev/zero && echo blank"
	if got, _ := finish(e, pod("next", look)); got != "lost+found\nblank\n" {
		t.Errorf("the next pod sees %q, want nothing but lost+found and a blank device", got)
	}
}

// cleaned reports whether a Job for a volume has completed on the volume's node.
func cleaned(jobs []batchv1.Job, pv *corev1.PersistentVolume) bool {
	for _, job := range jobs {
		for _, uid := range job.Labels {
			if uid == string(pv.UID) && job.Status.Succeeded == 1 && job.Spec.Template.Spec.NodeName == "one" {
				return true
			}
		}
	}
	return false
}
