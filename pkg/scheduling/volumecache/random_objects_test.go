// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"math/rand" //nolint:depguard // required by randfill
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// FuzzRandomObjects fills the API types at random, far beyond what the API server
// accepts, and calls every method with them. Nothing may panic, and no
// invariant may break.
func FuzzRandomObjects(f *testing.F) {
	for seed := range int64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		fill := filler(seed)
		w := newTestbed(t)
		nodes := make([]*v1.Node, 3)
		for i := range nodes {
			nodes[i] = clusterWide(filled[v1.Node](fill), "n"+strconv.Itoa(i))
			w.put(nodes[i])
		}
		for i := range 4 {
			class := clusterWide(filled[storagev1.StorageClass](fill), "c"+strconv.Itoa(i%3))
			w.put(class, clusterWide(filled[storagev1.CSIDriver](fill), class.Provisioner),
				clusterWide(filled[storagev1.CSINode](fill), "n"+strconv.Itoa(i)), filled[storagev1.CSIStorageCapacity](fill))
		}
		for i := range 12 {
			w.put(clusterWide(filled[v1.PersistentVolume](fill), "v"+strconv.Itoa(i)))
		}
		for i := range 6 {
			claim := filled[v1.PersistentVolumeClaim](fill)
			claim.Namespace, claim.Name = "default", "c"+strconv.Itoa(i)
			w.put(claim)
		}
		w.check()
		for i := range 8 {
			p := filled[v1.Pod](fill)
			p.Namespace, p.Name, p.UID = "default", "p"+strconv.Itoa(i), types.UID("p"+strconv.Itoa(i))
			w.put(p)
			callAll(t, w, p, nodes)
		}
	})
}

// callAll calls every method for one pod.
func callAll(t *testing.T, w *testbed, p *v1.Pod, nodes []*v1.Node) {
	t.Helper()
	w.Evictable(p)
	d, refusal, err := w.Demand(p)
	if refusal != nil || err != nil {
		return
	}
	w.Withhold(d)
	w.Awaits(d)
	left, _ := w.Nodes(d)
	for _, object := range nodes {
		fits := w.Fits(d, object).Code == match.Fits
		if fits && left != nil && !left.Has(object.Name) {
			t.Errorf("node %s fits but is left out", object.Name)
		}
		for _, usage := range w.Usage(d, object, nil) {
			if usage.StaticAsked < 0 || usage.StaticGiven < 0 || usage.ProvisionedAsked < 0 || usage.ProvisionedOf < 0 {
				t.Errorf("negative usage: %+v", usage)
			}
		}
		if _, reason := w.Reserve(d, object.Name); fits != (reason.Code == match.Fits) {
			t.Errorf("node %s: Fits returns %t, Reserve %q", object.Name, fits, reason.Code)
		}
		w.check()
		w.Release(p.UID)
	}
	for i := range 12 {
		w.VolumeMayUnblock(d, "v"+strconv.Itoa(i))
	}
	w.Translates(d)
}

func filled[T any](fill *randfill.Filler) *T {
	object := new(T)
	fill.Fill(object)
	return object
}

// clusterWide sets the name of an object without a namespace.
func clusterWide[T metav1.Object](object T, name string) T {
	object.SetNamespace("")
	object.SetName(name)
	return object
}

// filler fills objects, some of which refer to each other.
func filler(seed int64) *randfill.Filler {
	pick := func(c randfill.Continue, choices ...string) string { return choices[c.Intn(len(choices))] }
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			switch c.Intn(4) {
			case 0:
				*q = *resource.NewQuantity(int64(c.Uint64()), resource.BinarySI)
			case 1:
				*q = resource.MustParse(pick(c, "9223372036854775807", "1e30", "-5", "0", "1500m", "9E"))
			default:
				*q = *resource.NewQuantity(int64(c.Intn(8))<<30, resource.BinarySI)
			}
		},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			m.Name, m.Namespace, m.UID = pick(c, "a", "b", "c0"), pick(c, "default", "other"), types.UID(pick(c, "u1", "u2", ""))
			c.Fill(&m.Labels)
			c.Fill(&m.Annotations)
			c.Fill(&m.OwnerReferences)
			if c.Intn(8) == 0 {
				m.DeletionTimestamp = &metav1.Time{}
			}
		},
		func(m *map[string]string, c randfill.Continue) {
			*m = map[string]string{}
			for range c.Intn(4) {
				(*m)[pick(c, "pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node", v1.BetaStorageClassAnnotation,
					v1.LabelHostname, v1.LabelTopologyZone, "tier", v1.MigratedPluginsAnnotationKey)] = pick(c, "n0", "n1", "c0", "c1", "", "x", "kubernetes.io/aws-ebs")
			}
		},
		func(s *string, c randfill.Continue) {
			*s = pick(c, "", "c0", "c1", "c2", "v0", "v1", "n0", "default", "tier", "csi", "kubernetes.io/no-provisioner", v1.LabelHostname, "x\x00\"", "metadata.name")
		},
		func(mode *storagev1.VolumeBindingMode, _ randfill.Continue) {
			*mode = storagev1.VolumeBindingWaitForFirstConsumer
		},
		func(phase *v1.PersistentVolumePhase, c randfill.Continue) {
			*phase = v1.PersistentVolumePhase(pick(c, "Available", "Available", "Bound", "Released", ""))
		},
		func(ref *v1.ObjectReference, c randfill.Continue) {
			ref.Namespace, ref.Name, ref.UID = "default", "c"+strconv.Itoa(c.Intn(6)), types.UID(pick(c, "", "u1", "u2"))
		},
		func(op *v1.NodeSelectorOperator, c randfill.Continue) {
			*op = v1.NodeSelectorOperator(pick(c, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"))
		},
		func(op *metav1.LabelSelectorOperator, c randfill.Continue) {
			*op = metav1.LabelSelectorOperator(pick(c, "In", "NotIn", "Exists", "DoesNotExist", "Like"))
		},
		func(mode *v1.PersistentVolumeAccessMode, c randfill.Continue) {
			*mode = v1.PersistentVolumeAccessMode(pick(c, "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod", "Telepathy"))
		},
		func(t *metav1.Time, _ randfill.Continue) { *t = metav1.Time{} },
	)
}
