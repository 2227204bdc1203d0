// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/install"
)

// TestProvisionerRestarted: the provisioner's pod is deleted while it cleans a disk. The volume is not
// published before the next one has cleaned it, and then it is blank.
func TestProvisionerRestarted(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	path := slot("slow", "disk")
	plug(e, "two", realnode.Disk{Kind: realnode.Block, Path: path, Size: 128 << 20})
	before := published(e, "two", path)
	e.Create(blockClaim(e, "volume", "slow"))
	const fill = "tr '\\0' x </dev/zero | dd of=/dev/volume bs=1M count=128 iflag=fullblock conv=fsync 2>/dev/null && tail -c 4 /dev/volume"
	if got, _ := finish(e, by(ours, withDevice(e.Shell("first", fill), "volume"))); got != "xxxx" {
		t.Errorf("the end of the full volume reads %q, want xxxx", got)
	}
	giveBack(e, "volume")
	e.WaitPV(before.Name, "being cleaned", func(pv *corev1.PersistentVolume) bool {
		return pv.UID == before.UID && pv.DeletionTimestamp != nil
	})
	old := provisionerOf(e, "two")
	e.Do(e.Client.CoreV1().Pods(install.Namespace).Delete(e.Context, old.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}))
	e.WaitGone("pod/"+old.Name, "--namespace="+install.Namespace)
	// Only the provisioner removes the finalizer: a volume that exists shows that the clean was interrupted.
	pv, err := e.Client.CoreV1().PersistentVolumes().Get(e.Context, before.Name, metav1.GetOptions{})
	if err != nil || pv.UID != before.UID {
		t.Fatalf("the provisioner had cleaned the disk before it was stopped: give it more to do (%v)", err)
	}
	published(e, "two", path, before)
	claimGone(e, "volume")
	e.Create(blockClaim(e, "volume", "slow"))
	const look = "cmp -n 134217728 /dev/volume /dev/zero && echo blank"
	if got, _ := finish(e, by(ours, withDevice(e.Shell("next", look), "volume"))); got != "blank\n" {
		t.Errorf("the next tenant prints %q, want blank", got)
	}
}
