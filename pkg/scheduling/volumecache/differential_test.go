// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// stock is the stock plugin's binder over the testbed's informers' stores.
func stock(t testing.TB, w *testbed) volumebinding.SchedulerVolumeBinder {
	t.Helper()
	core, storage := w.factory.Core().V1(), w.factory.Storage().V1()
	binder, err := volumebinding.NewVolumeBinder(klog.Background(), fake.NewClientset(), feature.Features{EnableVolumeAttributesClass: true},
		core.Pods(), core.Nodes(), storage.CSINodes(), core.PersistentVolumeClaims(), core.PersistentVolumes(), storage.StorageClasses(),
		volumebinding.CapacityCheck{CSIDriverInformer: storage.CSIDrivers(), CSIStorageCapacityInformer: storage.CSIStorageCapacities()},
		time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return binder
}

// FuzzStockBinder: a node that the stock plugin finds feasible is feasible for
// Stowage, with the exceptions in docs/design/matching.md: capacity that must be summed,
// is held for claims in flight or is less than its maximumVolumeSize, and volumes that
// are reserved for a claim but do not fit it. (matchFields are left out: the stock
// plugin does not support them.)
func FuzzStockBinder(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newTestbed(t)
		binder := stock(t, w)
		randomTestbed(w, rng)
		names := []string{"c0", "c1", "c2", "c3"}
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		p := pod("p", names[:1+rng.IntN(3)]...)
		theirs, err := binder.GetPodVolumeClaims(klog.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		d := w.demand(p)
		for _, object := range nodesOf(w) {
			volumes, reasons, err := binder.FindPodVolumes(klog.Background(), p, theirs, object)
			if err != nil {
				t.Fatal(err)
			}
			ours := w.Fits(d, object)
			w.check()
			switch {
			case len(reasons) > 0 || ours.Code == match.Fits:
			case ours.Code == match.ReservedVolumeMismatch:
			case ours.Code == match.NotEnoughSpace && (len(volumes.DynamicProvisions) > 1 || overstated(w) || w.Size().Reservations > 0):
			default:
				t.Errorf("node %s: the stock plugin binds %d and provisions %d claims, Fits returns %+v",
					object.Name, len(volumes.StaticBindings), len(volumes.DynamicProvisions), ours)
			}
		}
	})
}

// overstated reports whether an object allows a volume larger than its capacity, or
// whether two have the same topology.
func overstated(w *testbed) bool {
	seen := map[string]bool{}
	for _, o := range w.factory.Storage().V1().CSIStorageCapacities().Informer().GetStore().List() {
		object := o.(*storagev1.CSIStorageCapacity)
		topology := object.NodeTopology.String()
		if seen[topology] || object.Capacity != nil && object.MaximumVolumeSize != nil && object.MaximumVolumeSize.Cmp(*object.Capacity) > 0 {
			return true
		}
		seen[topology] = true
	}
	return false
}

// randomTestbed has three nodes, three classes, claims c0 to c3 and a handful of
// volumes and capacity objects.
func randomTestbed(w *testbed, rng *rand.Rand) {
	value := func(prefix string, n int) string { return prefix + strconv.Itoa(rng.IntN(n)) }
	size := func() string { return strconv.Itoa(1+rng.IntN(5)) + "Gi" }
	classes := []string{"local", "fast", "made"}
	w.put(wffc("local"), wffc("fast"), tracked("csi"))
	class := dynamic("made", "csi")
	if rng.IntN(2) == 0 {
		class = builders.MakeClass("made").BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).Provisioner("csi").
			AllowedTopology(v1.LabelTopologyZone, value("z", 2)).Obj()
	}
	w.put(class)
	for i := range 3 {
		name := "n" + strconv.Itoa(i)
		w.put(builders.MakeNode(name).Hostname(name).Zone(value("z", 2)).Label("cpus", value("", 9)).Obj())
	}
	for range rng.IntN(3) {
		made := builders.MakeCapacity(value("cap", 5), "made").Namespace("default").Zone(value("z", 2))
		if rng.IntN(3) > 0 {
			made.Capacity(size())
		}
		if rng.IntN(3) == 0 {
			made.Max(size())
		}
		w.put(made.Obj())
	}
	for i := range 4 {
		c := pvc("c"+strconv.Itoa(i), size()).Class(classes[rng.IntN(3)])
		switch rng.IntN(6) {
		case 0:
			c.MatchLabel("tier", value("t", 2))
		case 1:
			c.AccessModes(v1.ReadWriteMany)
		case 2:
			c.Block()
		case 3:
			c.AttributesClass("gold")
		case 4:
			c.SelectedNode(value("n", 4)) // n3 does not exist
			if rng.IntN(2) == 0 {
				c.Class("made")
			}
		}
		w.put(c.Obj())
	}
	for i := range rng.IntN(14) {
		w.put(randomVolume("v"+strconv.Itoa(i), classes[rng.IntN(3)], rng))
	}
}

func randomVolume(name, class string, rng *rand.Rand) *v1.PersistentVolume {
	value := func(prefix string, n int) string { return prefix + strconv.Itoa(rng.IntN(n)) }
	pv := builders.MakePV(name).UID("pv-" + name).Class(class).Capacity(strconv.Itoa(1+rng.IntN(6)) + "Gi").
		AccessModes(v1.ReadWriteOnce).Phase(v1.VolumeAvailable)
	switch rng.IntN(5) {
	case 0: // everywhere
	case 1:
		pv.Zone(value("z", 2))
	case 2:
		pv.Affinity(builders.Term(builders.Requirement("cpus", v1.NodeSelectorOpGt, value("", 9))), builders.Term(builders.In(v1.LabelHostname, value("n", 3))))
	default:
		pv.Hostname(value("n", 3))
	}
	if rng.IntN(3) == 0 {
		pv.AccessModes(v1.ReadWriteOnce, v1.ReadWriteMany)
	}
	if rng.IntN(2) == 0 {
		pv.Label("tier", value("t", 2))
	}
	switch rng.IntN(12) {
	case 0:
		pv.Block()
	case 1:
		pv.AttributesClass("gold")
	case 2:
		pv.Phase(v1.VolumePending)
	case 3:
		pv.Deleting()
	case 4:
		claim := value("c", 4)
		pv.ClaimRef("default", claim, []string{"", "pvc-" + claim, "pvc-former"}[rng.IntN(3)])
	}
	return pv.Obj()
}
