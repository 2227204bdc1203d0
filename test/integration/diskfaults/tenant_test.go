// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskfaults_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tenant uses a disk repeatedly: it claims each published volume, fills the disk, and releases
// it. Apart from the provisioner it is the only writer of the disk, so it also checks the rule:
// it receives the events of volumes in order, and writes only after it has checked the
// published disk.
type tenant struct {
	harness *harness
	medium  medium
	paths   []string
	random  *rand.Rand
	events  *queue
	// offers are the volumes of the disk that are not being deleted.
	offers map[types.UID]string
	// vanished are names of volumes that the administrator deleted while they had a claim.
	vanished map[string]bool
	claim    *corev1.PersistentVolumeClaim // nil for none
	// until is the number of kills until the claim is deleted.
	until int

	// acting is held while the tenant writes, and while the administrator removes
	// finalizers. The rest is under it.
	acting sync.Mutex
	owned  types.UID // the volume that the tenant's data is on; empty for none
	cycles int
	checks int
}

func newTenant(w *harness, m medium, seed uint64, paths []string) *tenant {
	return &tenant{harness: w, medium: m, paths: paths, random: rand.New(rand.NewPCG(seed, uint64(len(w.disks)))), events: newQueue(), offers: map[types.UID]string{}, vanished: map[string]bool{}}
}

func (t *tenant) has(path string) bool { return slices.Contains(t.paths, path) }

func (t *tenant) String() string { return filepath.Base(t.paths[0]) }

// device is the node of the tenant's device; empty for a file system.
func (t *tenant) device() string {
	if d, ok := t.medium.(*device); ok {
		return d.path
	}
	return ""
}

// live handles events until the queue is closed.
func (t *tenant) live(ctx context.Context) {
	for {
		n, ok := t.events.next()
		if !ok {
			return
		}
		t.acting.Lock()
		if n.volume != nil {
			t.observe(ctx, n.volume, n.gone)
		}
		t.releaseDisk(ctx)
		t.acting.Unlock()
	}
}

// observe handles a volume's new state.
func (t *tenant) observe(ctx context.Context, v *corev1.PersistentVolume, gone bool) {
	delete(t.offers, v.UID)
	if gone {
		t.lost(ctx, v)
		return
	}
	if target, err := os.Readlink(v.Spec.Local.Path); err == nil && target != t.device() {
		t.harness.violated("%s: kubelet would mount %s for volume %s", t, target, v.Name)
	}
	if v.DeletionTimestamp == nil {
		t.offers[v.UID] = v.Name
		if len(t.offers) > 1 {
			t.harness.violated("%s: %d volumes offer the same disk: %v", t, len(t.offers), t.offers)
		}
	}
	switch {
	case v.Status.Phase == corev1.VolumeAvailable && v.DeletionTimestamp == nil:
		t.offered(ctx, v)
	case v.Status.Phase == corev1.VolumeBound && t.claim != nil && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == t.claim.UID && t.owned == "":
		t.use(ctx, v)
	}
}

// offered checks the disk of a volume that is Available, and claims the volume.
func (t *tenant) offered(ctx context.Context, v *corev1.PersistentVolume) {
	t.checks++
	if t.vanished[v.Name] {
		t.harness.violated("%s: a claim that lost volume %s would bind to another one of that name", t, v.Name)
	}
	if t.owned != "" && !t.harness.isStripped(t.owned) {
		t.harness.violated("%s: volume %s is Available while the disk has a tenant (volume UID %s)", t, v.Name, t.owned)
	}
	dirt, err := t.medium.dirt(*v.Spec.VolumeMode)
	if err != nil {
		t.harness.violated("%s: check the disk: %v", t, err)
	}
	if dirt != "" {
		t.harness.violated("%s: volume %s (%s) is Available and its disk is not clean: %s", t, v.Name, v.UID, dirt)
	}
	if t.claim != nil && t.claim.Spec.VolumeName == v.Name || t.harness.isClosing() {
		return
	}
	t.abandon(ctx)
	claim := t.harness.Env.PVC("").Class(v.Spec.StorageClassName).Request("1Mi").VolumeName(v.Name).Obj()
	claim.Name, claim.GenerateName, claim.Namespace = "", "tenant-", t.harness.Env.Namespace
	claim.Spec.VolumeMode = v.Spec.VolumeMode
	if t.claim, err = t.harness.Env.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
		t.harness.violated("%s: create a claim: %v", t, err)
	}
}

// use fills the disk of a volume that is bound to the claim, if it still is: the
// administrator may have been quicker.
func (t *tenant) use(ctx context.Context, v *corev1.PersistentVolume) {
	now, err := t.harness.Env.Client.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
	if t.harness.isStripped(v.UID) || ctx.Err() != nil || apierrors.IsNotFound(err) && t.harness.isDeleted(v.UID) {
		t.abandon(ctx)
		return
	}
	if err != nil || now.UID != v.UID {
		t.harness.violated("%s: volume %s vanished while it was bound: %v", t, v.Name, err)
		return
	}
	if now.Status.Phase != corev1.VolumeBound {
		return
	}
	if err := t.medium.plant(*v.Spec.VolumeMode, t.random); err != nil {
		t.harness.violated("%s: write to the disk: %v", t, err)
		return
	}
	t.owned = v.UID
	t.until = t.harness.killed() + t.random.IntN(3)
}

// releaseDisk ends the use of the disk, when it is due.
func (t *tenant) releaseDisk(ctx context.Context) {
	closing := t.harness.isClosing()
	if t.owned == "" && closing {
		t.abandon(ctx)
	}
	if t.owned == "" || t.harness.killed() < t.until && !closing {
		return
	}
	if !t.harness.isStripped(t.owned) {
		if err := t.medium.intact(); err != nil {
			t.harness.violated("%s: the data of a bound volume is lost: %v", t, err)
		}
	}
	t.owned = ""
	t.cycles++
	t.abandon(ctx)
}

// lost handles the deletion of a volume.
func (t *tenant) lost(ctx context.Context, v *corev1.PersistentVolume) {
	if t.owned == v.UID {
		if !t.harness.isStripped(v.UID) {
			t.harness.violated("%s: volume %s vanished while it was bound", t, v.Name)
		}
		t.owned = ""
		t.vanished[v.Name] = true
	}
	if t.claim != nil && t.claim.Spec.VolumeName == v.Name {
		t.abandon(ctx)
	}
}

// abandon deletes the claim.
func (t *tenant) abandon(ctx context.Context) {
	if t.claim == nil {
		return
	}
	err := t.harness.Env.Client.CoreV1().PersistentVolumeClaims(t.claim.Namespace).Delete(ctx, t.claim.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		t.harness.violated("%s: delete claim %s: %v", t, t.claim.Name, err)
	}
	t.claim = nil
}

func (w *harness) isClosing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

func (w *harness) killed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kills
}
