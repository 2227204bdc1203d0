// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/integration/fixture"
)

// scenario is one claim and its volumes, of a class of their own. Names are short.
type scenario struct {
	provisioner string // of the class; empty: there is no class
	mode        storagev1.VolumeBindingMode
	claim       *builders.PVC
	volumes     []*builders.PV
	// refs are the claimRefs of the volumes: to the claim with or without its UID, or to another one.
	refs []reference
}

type reference string

const (
	toNone      reference = ""
	toClaim     reference = "claim"
	toName      reference = "name"
	toOther     reference = "other"
	toOtherName reference = "other-name"
)

func choose[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// random makes scenarios whose outcome does not depend on the order in which a controller finds
// objects, and that have none of the differences of docs/design/pv-binder.md.
func random(r *rand.Rand) scenario {
	s := scenario{
		provisioner: choose(r, "", "kubernetes.io/no-provisioner", "csi.example.com", "kubernetes.io/aws-ebs"),
		mode:        choose(r, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer),
	}
	s.claim = builders.MakePVC("c").Request(choose(r, "1Gi", "2Gi"))
	delayed := s.provisioner != "" && s.mode == storagev1.VolumeBindingWaitForFirstConsumer // without a class, claims are not
	if r.IntN(4) == 0 {
		s.claim.SelectedNode("n")
		delayed = false
	}
	if r.IntN(8) == 0 {
		s.claim.Provisioner(choose(r, "csi.example.com", "kubernetes.io/aws-ebs"))
	}
	complete := r.IntN(3) == 0
	if complete || r.IntN(3) == 0 {
		s.claim.VolumeName("v0")
	}
	if complete {
		s.claim.BindCompleted().Phase(choose(r, corev1.ClaimPending, corev1.ClaimBound, corev1.ClaimLost))
	}
	if r.IntN(4) == 0 {
		s.claim.BoundByController()
	}
	for i := range r.IntN(3) {
		size := fmt.Sprintf("%dGi", 1+2*i+r.IntN(2)) // all different
		v := builders.MakePV(fmt.Sprintf("v%d", i)).Capacity(size).CSI("csi.example.com", "h").
			Phase(choose(r, corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed)).
			ReclaimPolicy(choose(r, corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete))
		if r.IntN(3) == 0 {
			v.ProvisionedBy(choose(r, "csi.example.com", "kubernetes.io/aws-ebs"))
		}
		ref := choose(r, toNone, toNone, toClaim, toName, toOther, toOtherName)
		if slices.ContainsFunc(s.refs, func(other reference) bool { return other == toClaim || other == toName }) && (ref == toClaim || ref == toName) {
			ref = toOther // of several the PV controller takes any
		}
		if complete && ref == toName {
			ref = toClaim // a difference
		}
		if ref == toNone && !delayed {
			v.Phase(corev1.VolumeAvailable) // else a volume may be requested before
		}
		if ref != toNone && r.IntN(2) == 0 {
			v.BoundByController()
		}
		if r.IntN(6) == 0 {
			v.Block()
		}
		s.volumes, s.refs = append(s.volumes, v), append(s.refs, ref)
	}
	return s
}

// create creates the objects of scenario i, with their status.
func (s scenario) create(ctx context.Context, e *fixture.Env, i int) error {
	name := func(short string) string { return e.Name(fmt.Sprintf("s%d-%s", i, short)) }
	class, core := name("class"), e.Client.CoreV1()
	if s.provisioner != "" {
		object := builders.MakeClass(class).Provisioner(s.provisioner).BindingMode(s.mode).Label("stowage.dev/test", e.Namespace).Obj()
		if _, err := e.Client.StorageV1().StorageClasses().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	claim := s.claim.Obj()
	claim.Namespace, claim.Name, claim.Spec.StorageClassName = e.Namespace, fmt.Sprintf("s%d-c", i), &class
	if claim.Spec.VolumeName != "" {
		claim.Spec.VolumeName = name(claim.Spec.VolumeName)
	}
	created, err := core.PersistentVolumeClaims(e.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if created.Status.Phase != claim.Status.Phase {
		created.Status.Phase = claim.Status.Phase
		if created, err = core.PersistentVolumeClaims(e.Namespace).UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	for j := range s.volumes {
		volume := s.volumes[j].Obj()
		volume.Name, volume.Spec.StorageClassName = name(volume.Name), class
		metav1.SetMetaDataLabel(&volume.ObjectMeta, "stowage.dev/test", e.Namespace)
		switch ref := (&corev1.ObjectReference{Namespace: e.Namespace, Name: created.Name}); s.refs[j] {
		case toClaim:
			ref.UID, volume.Spec.ClaimRef = created.UID, ref
		case toName:
			volume.Spec.ClaimRef = ref
		case toOther:
			ref.Name, ref.UID, volume.Spec.ClaimRef = "other", "other", ref
		case toOtherName:
			ref.Name, volume.Spec.ClaimRef = "other", ref
		}
		status := volume.Status
		made, err := core.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		made.Status = status
		if _, err := core.PersistentVolumes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// states are the objects of all scenarios, without what differs between two clusters.
func states(e *fixture.Env) map[string]string {
	all, short := map[string]string{}, func(name string) string { return strings.TrimPrefix(name, e.Namespace+"-") }
	uids := map[string]string{"": "no UID", "other": "other"}
	for _, c := range fixture.Get(e, func(ctx context.Context) (*corev1.PersistentVolumeClaimList, error) {
		return e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).List(ctx, metav1.ListOptions{})
	}).Items {
		uids[string(c.UID)] = "UID"
		all[c.Name] = fmt.Sprintf("%s, volume %s, modes %v, capacity %s, annotations %v", c.Status.Phase, short(c.Spec.VolumeName), c.Status.AccessModes, c.Status.Capacity.Storage(), c.Annotations)
	}
	for _, v := range fixture.Get(e, func(ctx context.Context) (*corev1.PersistentVolumeList, error) {
		return e.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{LabelSelector: "stowage.dev/test=" + e.Namespace})
	}).Items {
		ref := "none"
		if r := v.Spec.ClaimRef; r != nil {
			ref = r.Name + " " + uids[string(r.UID)]
		}
		phase := v.Status.Phase
		if phase == corev1.VolumeFailed && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			phase = corev1.VolumeReleased // a difference
		}
		all[short(v.Name)] = fmt.Sprintf("%s, claim %s, annotations %v, finalizers %v", phase, ref, v.Annotations, v.Finalizers)
	}
	return all
}

// settle returns when a controller has processed all objects that existed before, and retried what has
// failed: its queues are in order, and each round passes through both.
func settle(e *fixture.Env) {
	e.T.Helper()
	volume, claim := immediate(e, noProvisioner)
	for i := range 4 {
		e.CreatePVs(volume(fmt.Sprintf("last-%d", i)))
		e.CreatePVC(claim(fmt.Sprintf("last-%d", i)))
		e.WaitBound(fmt.Sprintf("last-%d", i), fmt.Sprintf("last-%d", i))
	}
}

// TestSameAsPVController: from random states, this controller and the PV controller reach the same
// final states, each on a cluster of its own.
func TestSameAsPVController(t *testing.T) {
	t.Parallel()
	seed := campaign.Begin(t)
	r := rand.New(rand.NewPCG(seed, 0))
	scenarios := make([]scenario, campaign.Scale(100, 1000))
	for i := range scenarios {
		scenarios[i] = random(r)
	}
	ours, theirs := fixture.NewOn(t, config()), fixture.NewOn(t, config())
	for _, e := range []*fixture.Env{ours, theirs} {
		e.Do(func(ctx context.Context) error {
			return await.Each(ctx, len(scenarios), func(ctx context.Context, i int) error { return scenarios[i].create(ctx, e, i) })
		})
	}
	before := states(ours)
	if diff := cmp.Diff(states(theirs), before); diff != "" {
		t.Fatalf("the clusters differ before the start:\n%s", diff)
	}
	if _, err := fixture.StartBinder(ours.Context(), ours.Cluster); err != nil {
		t.Fatal(err)
	}
	if err := startPVController(theirs.Cluster); err != nil {
		t.Fatal(err)
	}
	settle(theirs)
	settle(ours)
	want, got := states(theirs), states(ours)
	for name := range maps.Keys(want) {
		if want[name] != got[name] {
			t.Errorf("%s\n was  %s\n want %s\n got  %s", name, before[name], want[name], got[name])
		}
	}
}
