// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"slices"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/testing/builders"
)

func TestHintCSIDriver(t *testing.T) {
	t.Parallel()
	waiting := []runtime.Object{csiClass().Obj(), localClass().Obj(), node("a").Obj(), claim("c", "1Gi").Class("csi").Obj(), claim("l", "1Gi").Obj()}
	runHints(t, fwk.CSIDriver, map[string]hintCase{
		"capacity is no longer tracked": {
			objects: waiting, pod: pod("p", "c"), before: csiDriver(true), now: csiDriver(false), want: fwk.Queue,
		},
		"the field for capacity is removed": {
			objects: waiting, pod: pod("p", "c"), before: csiDriver(true), now: builders.MakeCSIDriver(driver).Obj(), want: fwk.Queue,
		},
		"capacity is now tracked": {
			objects: waiting, pod: pod("p", "c"), before: csiDriver(false), now: csiDriver(true), want: fwk.QueueSkip,
		},
		"capacity is tracked as before": {
			objects: waiting, pod: pod("p", "c"), before: csiDriver(true), now: csiDriver(true), want: fwk.QueueSkip,
		},
		"another driver's capacity is no longer tracked": {
			objects: waiting, pod: pod("p", "c"),
			before: builders.MakeCSIDriver("else").StorageCapacity(true).Obj(), now: builders.MakeCSIDriver("else").Obj(), want: fwk.QueueSkip,
		},
		"the pod's class has another driver": {
			objects: waiting, pod: pod("p", "l"), before: csiDriver(true), now: csiDriver(false), want: fwk.QueueSkip,
		},
		"the driver's object is deleted": {
			objects: waiting, pod: pod("p", "c"), before: csiDriver(true), want: fwk.Queue,
		},
		"the object of a driver without tracking is deleted": {
			objects: waiting, pod: pod("p", "c"), before: csiDriver(false), want: fwk.QueueSkip,
		},
	})
}

func TestHintCSIStorageCapacity(t *testing.T) {
	t.Parallel()
	waiting := []runtime.Object{
		csiClass().Obj(), csiDriver(true), node("a").Obj(), node("b").Obj(),
		claim("c", "60Gi").Class("csi").Obj(), claim("d", "60Gi").Class("csi").Obj(),
	}
	with := func(more ...runtime.Object) []runtime.Object { return append(slices.Clone(waiting), more...) }
	runHints(t, fwk.CSIStorageCapacity, map[string]hintCase{
		"enough": {
			objects: waiting, pod: pod("p", "c"), now: capacity("r", "a", "60Gi").Obj(), want: fwk.Queue,
		},
		"not enough": {
			objects: waiting, pod: pod("p", "c"), now: capacity("r", "a", "59Gi").Obj(), want: fwk.QueueSkip,
		},
		"enough for each of two claims, not for both": {
			objects: waiting, pod: pod("p", "c", "d"), now: capacity("r", "a", "100Gi").Obj(), want: fwk.QueueSkip,
		},
		"enough for both, but maximumVolumeSize is too small": {
			objects: waiting, pod: pod("p", "c", "d"), now: capacity("r", "a", "500Gi").Max("50Gi").Obj(), want: fwk.QueueSkip,
		},
		"enough, of another class": {
			objects: waiting, pod: pod("p", "c"), now: capacity("r", "a", "60Gi").Class("else").Obj(), want: fwk.QueueSkip,
		},
		"enough, without nodes": {
			objects: waiting, pod: pod("p", "c"), now: capacity("r", "gone", "60Gi").Obj(), want: fwk.QueueSkip,
		},
		"enough, but another node is selected": {
			objects: with(claim("selected", "60Gi").Class("csi").SelectedNode("b").Obj()),
			pod:     pod("p", "selected"), now: capacity("r", "a", "60Gi").Obj(), want: fwk.QueueSkip,
		},
		"grew enough": {
			objects: waiting, pod: pod("p", "c"), before: capacity("r", "a", "50Gi").Obj(), now: capacity("r", "a", "60Gi").Obj(), want: fwk.Queue,
		},
		"grew too little": {
			objects: waiting, pod: pod("p", "c"), before: capacity("r", "a", "50Gi").Obj(), now: capacity("r", "a", "55Gi").Obj(), want: fwk.QueueSkip,
		},
		"larger volumes can be made": {
			objects: waiting, pod: pod("p", "c"), before: capacity("r", "a", "100Gi").Max("50Gi").Obj(), now: capacity("r", "a", "100Gi").Max("60Gi").Obj(), want: fwk.Queue,
		},
		"shrank": {
			objects: waiting, pod: pod("p", "c"), before: capacity("r", "a", "55Gi").Obj(), now: capacity("r", "a", "50Gi").Obj(), want: fwk.QueueSkip,
		},
		"was published again, unchanged": {
			objects: waiting, pod: pod("p", "c"), before: capacity("r", "a", "60Gi").Obj(), now: capacity("r", "a", "60Gi").Obj(), want: fwk.QueueSkip,
		},
	})
}

// TestHintOfIncludedCapacity: the driver does not report more capacity than before, but its figure now
// includes what was held for a volume, so that more is left.
func TestHintOfIncludedCapacity(t *testing.T) {
	t.Parallel()
	counts := capacity("r", "a", "100Gi").Obj()
	counts.Annotations = map[string]string{wellknown.PavCountedAnnotation: "pvc-c"}
	for name, tc := range map[string]struct {
		made bool // the volume exists
		now  *storagev1.CSIStorageCapacity
	}{
		"of a volume that exists, of fewer bytes than were held":   {true, capacity("r", "a", "50Gi").Obj()},
		"of one that is being made, while another one was deleted": {false, counts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := pod("first", "c"), pod("second", "d")
			before := capacity("r", "a", "100Gi").Obj()
			w := newTestbed(t,
				csiClass().Obj(), csiDriver(true), node("a").Obj(), before,
				claim("c", "60Gi").Class("csi").Obj(), claim("d", "50Gi").Class("csi").Obj(),
			)
			if status := w.begin(first).reserve("a"); !status.IsSuccess() {
				t.Fatal(status)
			}
			if status := w.begin(second).filter("a"); status.IsSuccess() {
				t.Fatal("the second pod fits although the rest is held")
			}
			if tc.made {
				w.put(builders.MakePV("made").Class("csi").Hostname("a").ClaimRef("default", "c", "pvc-c").Obj())
				w.put(claim("c", "60Gi").Class("csi").Bound("made").Obj())
				w.cache.Release(first.UID)
			}
			w.hold()
			w.put(tc.now)
			got, err := w.hint(fwk.CSIStorageCapacity, fwk.Update)(klog.Background(), second, before, w.stored(tc.now))
			if err != nil || got != fwk.Queue {
				t.Errorf("hint returns %v, error %v; want Queue", got, err)
			}
		})
	}
}
