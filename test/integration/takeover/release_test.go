// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// removeProvisionerPod deletes the pod that the node's provisioner is in, as far as the API server
// knows: the provisioner's rights end with it.
func removeProvisionerPod(n *node.Node) {
	e := n.Env
	e.T.Helper()
	pods, err := e.Client.CoreV1().Pods("stowage-system").List(e.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name})
	if err != nil {
		e.T.Fatal(err)
	}
	if len(pods.Items) == 0 {
		e.T.Fatal("the provisioner has no pod")
	}
	for _, pod := range pods.Items {
		if err := e.Client.CoreV1().Pods(pod.Namespace).Delete(e.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			e.T.Fatal(err)
		}
	}
}

func finalized(pv *corev1.PersistentVolume) bool {
	return slices.Contains(pv.Finalizers, wellknown.LocalVolumeFinalizer)
}

// TestRelease: without provisioners volumes can be released, and claims keep theirs.
func TestRelease(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	n := node.New(t, e, "a")
	for _, name := range []string{"free", "taken", "dirty"} {
		n.Mount(name, "48M")
	}
	n.Start()
	free := n.WaitPhase(n.Files, "free", corev1.VolumeAvailable)
	taken, dirty := n.Claim(n.Files, "taken"), n.Claim(n.Files, "dirty")
	n.Stop()
	release(e, dirty)
	n.Delete(dirty)
	args := []string{"release", "--node=" + n.Name}
	confirm := slices.Concat(args, []string{"--confirm"})

	fails(e, confirm, "its provisioner still runs", "0 to release", "3 kept")
	removeProvisionerPod(n)
	succeeds(e, args, "3 to release, 1 of them with data of claims that are gone", "NOT CLEANED", "Nothing was changed")
	for _, pv := range []*corev1.PersistentVolume{free, taken, dirty} {
		if !finalized(live(e, pv)) {
			t.Errorf("volume %s was released without --confirm", pv.Name)
		}
	}
	succeeds(e, confirm, "Released 3.")
	wait(e, dirty.Name, "gone", gone)
	if pv := live(e, taken); finalized(pv) || pv.Status.Phase != corev1.VolumeBound {
		t.Errorf("the volume is %s, with finalizers %q", pv.Status.Phase, pv.Finalizers)
	}
	n.Delete(free)
	wait(e, free.Name, "gone", gone)
	succeeds(e, confirm, "There are no volumes to release.")
}

// TestLostNode: the volumes of a deleted node are removed with its claims.
func TestLostNode(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	n := node.New(t, e, "a")
	n.Mount("disk1", "48M")
	n.Start()
	pv := n.Claim(n.Files, "disk1")
	n.Kill()
	if err := e.Client.CoreV1().Nodes().Delete(e.Context(), n.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	release(e, pv)
	n.Delete(pv)
	wait(e, pv.Name, "being deleted", func(pv *corev1.PersistentVolume) bool { return pv != nil && pv.DeletionTimestamp != nil })
	succeeds(e, []string{"release", "--node=" + n.Name, "--confirm"}, "Released 1.")
	wait(e, pv.Name, "gone", gone)
}

// TestBackToReference: volumes can be handed to the reference and back, and a provisioner that
// starts in between does not clean them.
func TestBackToReference(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	n := node.New(t, e, "a")
	n.Mount("published", "48M")
	n.Mount("adopted", "48M")
	adopted := bind(e, reference(n, n.Files, "adopted", byName))
	adopt := []string{"adopt", "--config=" + n.Path("config"), "--node=" + n.Name, "--confirm"}
	succeeds(e, adopt, "Adopted 1.")
	n.Start()
	published := n.Claim(n.Files, "published")
	n.WaitEntry(n.Files, "adopted", stowage.EntryBound, "")
	for _, name := range []string{"published", "adopted"} {
		n.Write(name, "data", "of a claim")
	}
	n.Stop()

	object, err := e.Client.CoreV1().Nodes().Get(e.Context(), n.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	succeeds(e, []string{"release", "--node=" + n.Name, "--give-back", "--while-running", "--confirm"}, "Released 2.")
	for _, want := range []struct {
		pv *corev1.PersistentVolume
		by string
	}{
		{adopted, "local-volume-provisioner-" + n.Name},
		{published, "local-volume-provisioner-" + n.Name + "-" + string(object.UID)},
	} {
		pv := live(e, want.pv)
		if got := pv.Annotations[localpv.ProvisionedByAnnotation]; got != want.by || finalized(pv) || pv.Labels[wellknown.NodeLabel] != "" {
			t.Errorf("volume %s is by %q, with finalizers %q and labels %v", pv.Name, got, pv.Finalizers, pv.Labels)
		}
	}

	n.Start()
	for _, name := range []string{"published", "adopted"} {
		n.WaitEntry(n.Files, name, stowage.EntrySkipped, string(disk.ForeignVolume))
	}
	succeeds(e, adopt, "Adopted 2.")
	for _, name := range []string{"published", "adopted"} {
		n.WaitEntry(n.Files, name, stowage.EntryBound, "")
		if names := n.Names(name); len(names) != 1 {
			t.Errorf("a volume with a claim holds %q", names)
		}
	}
	for _, before := range []*corev1.PersistentVolume{adopted, published} {
		if pv := live(e, before); pv.UID != before.UID || !finalized(pv) || pv.Annotations[wellknown.DiskIdentityAnnotation] == "" {
			t.Errorf("volume %s has finalizers %q and annotations %v", pv.Name, pv.Finalizers, pv.Annotations)
		}
	}
}
