// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskfaults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
	"stowage.dev/stowage/test/provisioners"
)

// restartTimeout is how long a component may take to restart.
var restartTimeout = 2 * deadline.Wait()

// outageTimeout is Env.Timeout: after several outages within two minutes, informers query an
// API server that is back only after up to one more (client-go's reflector).
var outageTimeout = 3 * deadline.Wait()

// errLost replaces an answer when the API server is killed.
var errLost = errors.New("the answer was lost")

// TestOutages stops components of a cluster, one test after the other; in full strength all
// five times.
func TestOutages(t *testing.T) {
	t.Parallel()
	campaign.Begin(t)
	e := fixture.NewOn(t, fixture.DefaultConfig())
	if err := provisioners.Apply(e.Context(), e.Cluster); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*testing.T, *fixture.Env){
		"the API server dies when it has created a volume":         func(t *testing.T, e *fixture.Env) { publishWithout(t, e, false) },
		"the API server dies before it can create a volume":        func(t *testing.T, e *fixture.Env) { publishWithout(t, e, true) },
		"the API server dies while a disk is cleaned":              cleanWithout,
		"a volume is deleted while a claim is bound to it":         deletedWhileBinding,
		"the API server is killed when it has removed a finalizer": func(t *testing.T, e *fixture.Env) { releaseWithout(t, e, false) },
		"the API server is killed before it removes a finalizer":   func(t *testing.T, e *fixture.Env) { releaseWithout(t, e, true) },
	}
	for range campaign.Scale(1, 5) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				e := e.Sibling(t)
				e.Timeout = outageTimeout
				test(t, e)
			})
		}
	}
}

// start starts a component again.
func start(e *fixture.Env, c *cluster.Component) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), restartTimeout)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		e.T.Fatal(err)
	}
}

// killAt kills the API server at the next request of a kind, before it is executed
// or before its answer is sent. The channel is closed when the API server has ended.
func killAt(e *fixture.Env, p *proxy, request string, before bool) <-chan struct{} {
	dead := make(chan struct{})
	done := false
	hook := func(what string) error {
		if what != request || done {
			return nil
		}
		done = true
		defer close(dead)
		return errors.Join(errLost, e.Cluster.APIServer().Kill())
	}
	if before {
		p.on(hook, nil)
	} else {
		p.on(nil, hook)
	}
	return dead
}

// await waits for a channel to be closed.
func await(e *fixture.Env, what string, c <-chan struct{}) {
	e.T.Helper()
	timer := time.NewTimer(e.Timeout)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		e.T.Fatalf("waited %s for %s", e.Timeout, what)
	}
}

// publishWithout: each disk ends up with one volume.
func publishWithout(t *testing.T, e *fixture.Env, before bool) {
	n := node.New(t, e, "a")
	dead := killAt(e, newProxy(n), createVolume, before)
	for i := range 3 {
		n.Tmpfs(fmt.Sprint("disk", i), "1M")
	}
	n.Start()
	await(e, "the API server to be killed", dead)
	start(e, e.Cluster.APIServer())
	for i := range 3 {
		n.WaitPhase(n.Files, fmt.Sprint("disk", i), corev1.VolumeAvailable)
	}
	if published := n.Published(n.Files); len(published) != 3 {
		t.Errorf("published are %q, want each of three disks once", published)
	}
}

// cleanWithout: the clean ends, and the volume is published again once the API server is back.
func cleanWithout(t *testing.T, e *fixture.Env) {
	n := node.New(t, e, "a")
	n.Set(n.Blocks, "blockCleanerCommand", []string{"dd-zero", "3"})
	block := &device{path: n.Device("disk1", "64M")}
	n.Start()
	volume := n.Claim(n.Blocks, "disk1")
	plant(t, block, blockMode)
	dead, clean := make(chan struct{}), make(chan struct{})
	defer onRecord(n, disk.Cleaning, func() {
		defer close(dead)
		if err := e.Cluster.APIServer().Kill(); err != nil {
			t.Error(err)
		}
	})()
	defer onRecord(n, disk.Clean, func() { close(clean) })()
	n.Unclaim(volume)
	await(e, "the API server to be killed", dead)
	await(e, "the disk to be clean", clean)
	start(e, e.Cluster.APIServer())
	n.WaitRepublished(n.Blocks, "disk1", volume)
	mustBeClean(t, block, blockMode)
}

// releaseWithout: the same without an API server at the last step.
func releaseWithout(t *testing.T, e *fixture.Env, before bool) {
	n := node.New(t, e, "a")
	path := n.Mount("disk1", "24M")
	tree := newTree(n, path)
	p := newProxy(n)
	n.Start()
	volume := n.Claim(n.Files, "disk1")
	plant(t, tree, filesystem)
	dead := killAt(e, p, releaseVolume, before)
	n.Unclaim(volume)
	await(e, "the API server to be killed", dead)
	start(e, e.Cluster.APIServer())
	n.WaitRepublished(n.Files, "disk1", volume)
	mustBeClean(t, tree, filesystem)
}

// deletedWhileBinding: an administrator deletes the volume after its claimRef is written and
// before the claim is bound. The claim is bound nevertheless, and its pod's data is neither
// lost nor left for the next claim.
func deletedWhileBinding(t *testing.T, e *fixture.Env) {
	n := node.New(t, e, "a")
	path := n.Mount("disk1", "24M")
	tree := newTree(n, path)
	n.Start()
	volume := n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	if err := e.Cluster.ControllerManager().Kill(); err != nil {
		t.Fatal(err)
	}
	claim := e.CreatePVC(e.PVC("data").Class(n.Files).Request("1Mi").VolumeName(volume.Name))
	patch := fmt.Appendf(nil, `{"metadata":{"finalizers":["stowage.dev/test","stowage.dev/local-volume"]},
		"spec":{"claimRef":{"kind":"PersistentVolumeClaim","apiVersion":"v1","namespace":%q,"name":%q,"uid":%q}}}`, claim.Namespace, claim.Name, claim.UID)
	if _, err := e.Client.CoreV1().PersistentVolumes().Patch(e.Context(), volume.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Delete(volume)
	n.WaitVolume(n.Files, "disk1", "without finalizer of the provisioner", func(v *corev1.PersistentVolume) bool {
		return v != nil && v.DeletionTimestamp != nil && len(v.Finalizers) == 1
	})
	start(e, e.Cluster.ControllerManager())
	n.WaitVolume(n.Files, "disk1", "bound", func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeBound })
	plant(t, tree, filesystem)
	n.Tmpfs("disk2", "1M") // whose volume shows that the provisioner has had time to act
	n.WaitPhase(n.Files, "disk2", corev1.VolumeAvailable)
	if err := tree.intact(); err != nil {
		t.Errorf("the data of a bound volume is lost: %v", err)
	}
	e.DeletePVC(claim.Name)
	n.WaitVolume(n.Files, "disk1", "released", func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeReleased })
	n.WaitEntry(n.Files, "disk1", stowage.EntryReleased, "") // else the provisioner may have seen the volume Bound last
	if err := n.StripFinalizers(e.Context(), volume.Name); err != nil {
		t.Fatal(err)
	}
	n.AllowClean(n.Files, "disk1")
	n.WaitRepublished(n.Files, "disk1", volume)
	mustBeClean(t, tree, filesystem)
}
