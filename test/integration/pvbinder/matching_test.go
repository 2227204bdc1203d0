// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/external"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestWhichVolume: a claim gets the volume that fits what it specifies; the others stay Available.
func TestWhichVolume(t *testing.T) {
	t.Parallel()
	type (
		claims  = func(*builders.PVC)
		volumes = map[string]func(*builders.PV)
	)
	label := func(key, value string) func(*builders.PV) {
		return func(pv *builders.PV) { pv.Label(key, value) }
	}
	modes := func(modes ...corev1.PersistentVolumeAccessMode) func(*builders.PV) {
		return func(pv *builders.PV) { pv.AccessModes(modes...) }
	}
	sizes := volumes{}
	for i := range 100 {
		sizes[fmt.Sprintf("size-%d", i+1)] = func(pv *builders.PV) { pv.Capacity(fmt.Sprintf("%dGi", i+1)) }
	}
	for name, tc := range map[string]struct {
		claim   claims
		volumes volumes
		want    string
	}{
		"a label": {
			func(c *builders.PVC) { c.MatchLabel("disk", "fast") },
			volumes{"fast": label("disk", "fast"), "slow": label("disk", "slow"), "none": label("other", "fast")}, "fast",
		},
		"expressions": {
			func(c *builders.PVC) {
				c.MatchExpression("disk", metav1.LabelSelectorOpIn, "a", "b").MatchExpression("disk", metav1.LabelSelectorOpNotIn, "b").
					MatchExpression("tested", metav1.LabelSelectorOpExists).MatchExpression("broken", metav1.LabelSelectorOpDoesNotExist)
			},
			volumes{
				"a":        func(pv *builders.PV) { pv.Label("disk", "a").Label("tested", "") },
				"b":        func(pv *builders.PV) { pv.Label("disk", "b").Label("tested", "") },
				"untested": label("disk", "a"),
				"broken":   func(pv *builders.PV) { pv.Label("disk", "a").Label("tested", "").Label("broken", "") },
			}, "a",
		},
		"an access mode": {
			func(c *builders.PVC) { c.AccessModes(corev1.ReadWriteMany) },
			volumes{"once": modes(corev1.ReadWriteOnce), "many": modes(corev1.ReadWriteMany)}, "many",
		},
		"several access modes": {
			func(c *builders.PVC) { c.AccessModes(corev1.ReadWriteOnce, corev1.ReadOnlyMany) },
			volumes{"one": modes(corev1.ReadWriteOnce), "both": modes(corev1.ReadWriteOnce, corev1.ReadOnlyMany)}, "both",
		},
		"a block volume": {
			func(c *builders.PVC) { c.Block() },
			volumes{"files": func(*builders.PV) {}, "block": func(pv *builders.PV) { pv.Block() }}, "block",
		},
		"an attributes class": {
			func(c *builders.PVC) { c.AttributesClass("gold") },
			volumes{
				"none": func(*builders.PV) {}, "gold": func(pv *builders.PV) { pv.AttributesClass("gold") },
				"silver": func(pv *builders.PV) { pv.AttributesClass("silver") },
			}, "gold",
		},
		"the smallest of a hundred that are large enough": {func(c *builders.PVC) { c.Request("49Gi") }, sizes, "size-49"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			volume, claim := immediate(e, noProvisioner)
			var all []*builders.PV
			want := map[string]corev1.PersistentVolumePhase{}
			for name, change := range tc.volumes {
				pv := volume(name).CSI("csi.example.com", name) // attributes classes are of CSI volumes
				change(pv)
				all = append(all, pv)
				want[e.Name(name)] = corev1.VolumeAvailable
			}
			e.CreatePVs(all...)
			c := claim("c")
			tc.claim(c)
			e.CreatePVC(c)
			bound := e.WaitBound("c", tc.want)
			if diff := cmp.Diff(bound.Spec.VolumeAttributesClassName, bound.Status.CurrentVolumeAttributesClassName); diff != "" {
				t.Errorf("attributes class (-spec +status):\n%s", diff)
			}
			e.WaitPV(tc.want, "Bound", in(corev1.VolumeBound))
			want[e.Name(tc.want)] = corev1.VolumeBound
			got := map[string]corev1.PersistentVolumePhase{}
			for _, pv := range e.SeenPVs() {
				got[pv.Name] = pv.Status.Phase
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			e.DeletePVC("c")
			e.WaitPV(tc.want, "Released", in(corev1.VolumeReleased))
		})
	}
}

// TestReservedAmongMany: of many claims that wait, the one gets the volume for which it is reserved.
func TestReservedAmongMany(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	volume, claim := immediate(e, noProvisioner)
	const n, reserved = 100, "c57"
	for i := range n {
		e.CreatePVC(claim(fmt.Sprintf("c%d", i)))
	}
	e.WaitEvent(e.Namespace, "c99", "ProvisioningFailed")
	e.CreatePVsUnseen(volume("v").ClaimRef(e.Namespace, reserved, ""))
	e.WaitBound(reserved, "v")
	if diff := cmp.Diff(map[string]string{reserved: "v"}, e.Bindings()); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
}

// TestMany: of many claims and volumes that are created at once all are bound, while users write both.
func TestMany(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	volume, claim := immediate(e, noProvisioner)
	const n = 100
	var volumes []*builders.PV
	for i := range n {
		volumes = append(volumes, volume(fmt.Sprintf("v%d", i)))
		e.CreatePVC(claim(fmt.Sprintf("c%d", i)))
	}
	e.CreatePVsUnseen(volumes...)
	e.Do(func(ctx context.Context) error {
		return await.Each(ctx, n, func(ctx context.Context, i int) error {
			patch, core := []byte(`{"metadata":{"annotations":{"example.com/used":"yes"}}}`), e.Client.CoreV1()
			if _, err := core.PersistentVolumes().Patch(ctx, e.Name(fmt.Sprintf("v%d", i)), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return err
			}
			_, err := core.PersistentVolumeClaims(e.Namespace).Patch(ctx, fmt.Sprintf("c%d", i), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	})
	for i := range n {
		e.WaitBound(fmt.Sprintf("c%d", i), "")
	}
	e.NoVolumeTwice()
}

// TestManyProvisioned: volumes of many claims, whose class is in the older annotation, are provisioned
// when the claims are created, and deleted after them.
func TestManyProvisioned(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	const n = 100
	provisioner := e.Name("csi.example.com")
	e.CreateClass(e.Class("csi").Immediate().Provisioner(provisioner).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	ctx, cancel := context.WithCancel(e.Context())
	var running sync.WaitGroup
	loop := external.Provisioner{Client: e.Client, Name: provisioner, Label: corev1.LabelHostname}.Controller(ctx)
	running.Go(func() { loop.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	for i := range n {
		e.CreatePVC(builders.MakePVC(fmt.Sprintf("c%d", i)).Namespace(e.Namespace).BetaClass(e.Name("csi")))
	}
	for i := range n {
		e.WaitBound(fmt.Sprintf("c%d", i), "")
	}
	e.NoVolumeTwice()
	for i := range n {
		e.DeletePVC(fmt.Sprintf("c%d", i))
	}
	e.Wait("the volumes to be deleted", func() bool {
		return !slices.ContainsFunc(e.AllPVs(), func(pv *corev1.PersistentVolume) bool { return pv.Spec.StorageClassName == e.Name("csi") })
	})
}
