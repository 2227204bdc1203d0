// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

func TestReservedVolumeIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), wffc("local"), pvc("c", "1Gi").Obj(), pvc("d", "1Gi").Obj(), localPV("v", "a", "1Gi").Obj())
	first, second := pod("first", "c"), pod("second", "d")
	if got := w.reserve(first, "a"); !cmp.Equal(got, map[string]string{"c": "v"}) {
		t.Fatalf("first pod got %v", got)
	}
	if got := w.fits(second, "a"); got != match.NoVolume {
		t.Errorf("with the volume reserved, Fits returns %q for another pod", got)
	}
	w.Release(first.UID)
	w.check()
	if got := w.fits(second, "a"); got != match.Fits {
		t.Errorf("after Release, Fits returns %q", got)
	}
}

func TestReserveAgainAfterRelease(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), wffc("local"), pvc("c", "1Gi").Obj(), pvc("d", "1Gi").Obj(), localPV("v", "a", "1Gi").Obj())
	p := pod("p", "c")
	d := w.demand(p)
	for round := range 3 { // the same demand each time, as with one CycleState
		if _, reason := w.Reserve(d, "a"); reason.Code != match.Fits {
			t.Fatalf("round %d: %q", round, reason.Code)
		}
		if got := w.fits(pod("other", "d"), "a"); got != match.NoVolume {
			t.Fatalf("round %d: reservation lost, Fits returns %q for another pod", round, got)
		}
		if round == 0 {
			continue // once without Release in between
		}
		w.Release(p.UID)
		w.check()
	}
	if size := w.Size(); size.Reservations != 0 {
		t.Errorf("%d reservations are left", size.Reservations)
	}
}

func TestPodsOfOneClaimShareItsReservation(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), node("b"), wffc("local"), pvc("c", "1Gi").Obj(),
		localPV("va", "a", "1Gi").Obj(), localPV("vb", "b", "1Gi").Obj())
	first, second := pod("first", "c"), pod("second", "c")
	w.reserve(first, "a")
	if got := w.fits(second, "b"); got != match.ReservedVolumeMismatch {
		t.Errorf("Fits returns %q where the claim's reserved volume is not", got)
	}
	if got := w.reserve(second, "a"); !cmp.Equal(got, map[string]string{"c": "va"}) {
		t.Errorf("second pod of the claim got %v", got)
	}
	w.Release(first.UID)
	w.check()
	if got := w.fits(pod("third", "c"), "b"); got != match.ReservedVolumeMismatch {
		t.Errorf("Fits returns %q while the second pod still holds the claim's volume", got)
	}
	w.Release(second.UID)
	w.check()
}

func TestObservedStateWinsOverReservation(t *testing.T) {
	t.Parallel()
	reserved := func(t *testing.T) (*testbed, *v1.Pod, *builders.PV) {
		w := newTestbed(t, node("a"), wffc("local"), pvc("c", "1Gi").Obj(), pvc("d", "1Gi").Obj())
		v := localPV("v", "a", "1Gi")
		w.put(v.Obj())
		p := pod("p", "c")
		w.reserve(p, "a")
		return w, p, v
	}
	t.Run("another claim has the volume", func(t *testing.T) {
		t.Parallel()
		w, p, v := reserved(t)
		w.put(v.ClaimRef("default", "d", "pvc-d").Obj())
		w.check()
		w.Release(p.UID)
		w.check()
		if got := w.fits(p, "a"); got != match.NoVolume {
			t.Errorf("Fits returns %q", got)
		}
		if got := w.fits(pod("other", "d"), "a"); got != match.Fits {
			t.Errorf("Fits returns %q for the claim that has the volume", got)
		}
	})
	t.Run("the volume is deleted", func(t *testing.T) {
		t.Parallel()
		w, p, v := reserved(t)
		w.remove(v.Obj())
		w.check()
		w.Release(p.UID)
		w.check()
	})
	t.Run("the volume's labels change: it remains reserved", func(t *testing.T) {
		t.Parallel()
		w, p, v := reserved(t)
		w.put(v.Label("any", "thing").Obj())
		w.check()
		if got := w.fits(pod("other", "d"), "a"); got != match.NoVolume {
			t.Errorf("Fits returns %q for another pod", got)
		}
		w.Release(p.UID)
		w.check()
		if got := w.fits(pod("other", "d"), "a"); got != match.Fits {
			t.Errorf("Fits returns %q after Release", got)
		}
	})
	t.Run("the volume is bound to the claim: Release frees nothing", func(t *testing.T) {
		t.Parallel()
		w, p, v := reserved(t)
		w.put(v.ClaimRef("default", "c", "pvc-c").Obj())
		w.check()
		w.Release(p.UID)
		w.check()
		if got := w.fits(pod("other", "d"), "a"); got != match.NoVolume {
			t.Errorf("Fits returns %q for another pod", got)
		}
	})
}

// TestApplyClaim: Claim returns the result of a write until the informer shows it.
func TestApplyClaim(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), wffc("local"), pvc("c", "1Gi").Obj())
	seen := w.claim("c")
	written := w.claim("c")
	written.Annotations = map[string]string{"written": "yes"}
	written.ResourceVersion = "1000"
	w.ApplyClaim(written)
	if got := w.Claim("default", "c"); got != written {
		t.Errorf("after the write, the claim is of version %s", got.ResourceVersion)
	}
	w.claimUpdated(seen) // an older event
	if got := w.Claim("default", "c"); got != written {
		t.Errorf("after an older event, the claim is of version %s", got.ResourceVersion)
	}
	w.version = 2000
	w.put(pvc("c", "1Gi").Obj())
	if got := w.Claim("default", "c"); got == written {
		t.Error("the write replaced a newer event")
	}
	if len(w.newest.written) != 0 {
		t.Errorf("%d writes are kept, want none", len(w.newest.written))
	}
	w.remove(w.claim("c"))
	w.ApplyClaim(written)
	if w.Claim("default", "c") != nil || len(w.newest.written) != 0 {
		t.Error("a late response restored a deleted claim")
	}
}

func TestCapacityIsHeldInFlight(t *testing.T) {
	t.Parallel()
	capacity := func(size string) *builders.Capacity {
		return builders.MakeCapacity("cap", "local").UID("cap").Hostname("a").Capacity(size)
	}
	inFlight := func(t *testing.T) (w *testbed, first, second *v1.Pod) {
		w = newTestbed(t, node("a"), dynamic("local", "csi"), tracked("csi"), capacity("100Gi").Obj(),
			pvc("c", "60Gi").Obj(), pvc("d", "60Gi").Obj())
		first, second = pod("first", "c"), pod("second", "d")
		if w.reserve(first, "a") == nil {
			t.Fatal("the first pod does not fit")
		}
		if got := w.fits(second, "a"); got != match.NotEnoughSpace {
			t.Fatalf("while the first claim is in flight, Fits returns %q", got)
		}
		return w, first, second
	}
	want := func(t *testing.T, w *testbed, p *v1.Pod, want match.ReasonCode) {
		t.Helper()
		w.check()
		if got := w.fits(p, "a"); got != want {
			t.Errorf("Fits returns %q, want %q", got, want)
		}
	}
	t.Run("released by Release", func(t *testing.T) {
		t.Parallel()
		w, first, second := inFlight(t)
		w.Release(first.UID)
		want(t, w, second, match.Fits)
	})
	t.Run("kept by Release while the claim selects the node", func(t *testing.T) {
		t.Parallel()
		w, first, second := inFlight(t)
		w.put(pvc("c", "60Gi").SelectedNode("a").Obj())
		w.Release(first.UID)
		want(t, w, second, match.NotEnoughSpace)
		w.put(pvc("c", "60Gi").Obj()) // the provisioner deselected the node
		want(t, w, second, match.Fits)
	})
	t.Run("held until the driver's report changes after the volume appeared", func(t *testing.T) {
		t.Parallel()
		w, first, second := inFlight(t)
		w.put(pvc("c", "60Gi").SelectedNode("a").Obj())
		w.put(capacity("200Gi").Max("150Gi").Obj()) // an update from before
		w.put(capacity("100Gi").Obj())
		want(t, w, second, match.NotEnoughSpace)
		w.put(localPV("made", "a", "60Gi").ClaimRef("default", "c", "pvc-c").Obj())
		w.put(pvc("c", "60Gi").SelectedNode("a").Bound("made").Obj())
		w.Release(first.UID)
		want(t, w, second, match.NotEnoughSpace)
		w.put(capacity("40Gi").Obj())
		want(t, w, second, match.NotEnoughSpace) // now by the report
		w.put(capacity("60Gi").Obj())
		want(t, w, second, match.Fits)
		if size := w.Size(); size.Reservations != 0 {
			t.Errorf("%d reservations are left", size.Reservations)
		}
	})
	t.Run("held two minutes at most if the report never changes", func(t *testing.T) {
		t.Parallel()
		w, first, second := inFlight(t)
		w.put(pvc("c", "60Gi").SelectedNode("a").Obj())
		w.put(localPV("made", "a", "60Gi").ClaimRef("default", "c", "pvc-c").Obj())
		w.Release(first.UID)
		want(t, w, second, match.NotEnoughSpace)
		w.clock.SetTime(w.clock.Now().Add(reportTime + time.Second))
		want(t, w, second, match.Fits)
	})
	t.Run("held after a restart, because of the claim's annotation", func(t *testing.T) {
		t.Parallel()
		w := newTestbed(t, node("a"), dynamic("local", "csi"), tracked("csi"), capacity("100Gi").Obj(),
			pvc("c", "60Gi").SelectedNode("a").Obj(), pvc("d", "60Gi").Obj())
		want(t, w, pod("second", "d"), match.NotEnoughSpace)
		want(t, w, pod("first", "c"), match.Fits)
		if got := w.reserve(pod("first", "c"), "a"); !cmp.Equal(got, map[string]string{"c": "(provision)"}) {
			t.Errorf("the claim's own pod got %v", got)
		}
		want(t, w, pod("second", "d"), match.NotEnoughSpace)
	})
	t.Run("released when the node is deleted", func(t *testing.T) {
		t.Parallel()
		w := newTestbed(t, node("a"), dynamic("local", "csi"), tracked("csi"),
			builders.MakeCapacity("shared", "local").Everywhere().Capacity("100Gi").Obj(),
			node("b"), pvc("c", "60Gi").SelectedNode("b").Obj(), pvc("d", "60Gi").Obj())
		want(t, w, pod("second", "d"), match.NotEnoughSpace)
		w.remove(node("b"))
		want(t, w, pod("second", "d"), match.Fits)
	})
	t.Run("released when the claim is deleted", func(t *testing.T) {
		t.Parallel()
		w, first, second := inFlight(t)
		w.put(pvc("c", "60Gi").SelectedNode("a").Obj())
		w.Release(first.UID)
		w.remove(w.claim("c"))
		want(t, w, second, match.Fits)
	})
}

func TestSelectedNodeThatIsGone(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), dynamic("local", "csi"), pvc("c", "1Gi").SelectedNode("gone").Obj())
	p := pod("p", "c")
	d := w.demand(p)
	for node := range d.Selected {
		t.Errorf("node %q is selected, which the informer lacks", node)
	}
	if got := w.fits(p, "a"); got != match.Fits {
		t.Errorf("Fits returns %q", got)
	}
	w.put(node("gone"))
	if got := w.fits(p, "a"); got != match.NodeNotSelected {
		t.Errorf("once the node exists, Fits returns %q", got)
	}
}

// TestSelectedNodeWithoutProvisioner: the annotation on a claim that nothing
// provisions neither rejects a node nor prevents binding the claim to a volume.
func TestSelectedNodeWithoutProvisioner(t *testing.T) {
	t.Parallel()
	for _, selected := range []string{"a", "b", "gone"} {
		t.Run(selected, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, node("a"), node("b"), wffc("local"), localPV("v", "a", "1Gi").Obj(), pvc("c", "1Gi").SelectedNode(selected).Obj())
			p := pod("p", "c")
			if got := w.fits(p, "b"); got != match.NoVolume {
				t.Errorf("on the node without a volume, Fits returns %q", got)
			}
			if diff := cmp.Diff(map[string]string{"c": "v"}, w.reserve(p, "a")); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a"), wffc("local"), pvc("c", "1Gi").Obj(), pvc("d", "1Gi").Class("made").Obj(),
		builders.MakeClass("made").Provisioner("csi.example").Obj(), localPV("v", "a", "1Gi").Obj())
	p := pod("p", "c", "d")
	w.reserve(p, "a")
	want := map[types.NamespacedName]string{
		{Namespace: builders.DefaultNamespace, Name: "c"}: "v",
		{Namespace: builders.DefaultNamespace, Name: "d"}: "",
	}
	if diff := cmp.Diff(want, w.Reserved(p.UID)); diff != "" {
		t.Errorf("reserved volumes (-want +got):\n%s", diff)
	}
	w.Release(p.UID)
	if got := w.Reserved(p.UID); len(got) > 0 {
		t.Errorf("after Release, the pod has %v", got)
	}
}

func TestFreeOn(t *testing.T) {
	t.Parallel()
	const gi = 1 << 30
	a, b := builders.MakeNode("a").Zone("z").Obj(), builders.MakeNode("b").Zone("z").Obj()
	w := newTestbed(t, a, b, wffc("local"), pvc("c", "1Gi").Obj(), pvc("d", "1Gi").Class("made").Obj(),
		builders.MakeClass("made").Provisioner("csi.example").Obj(),
		builders.MakeCSIDriver("csi.example").StorageCapacity(true).Obj(),
		builders.MakeCapacity("all", "made").Capacity("8Gi").Max("4Gi").Zone("z").Obj(),
		localPV("small", "a", "1Gi").Obj(), localPV("large", "a", "2Gi").Obj(), localPV("other", "b", "3Gi").Obj(),
		localPV("both", "a", "2Gi").Zone("z").Obj(), localPV("bound", "a", "9Gi").ClaimRef("x", "y", "z").Obj())
	w.reserve(pod("p", "c", "d"), "a") // the smallest volume

	for name, test := range map[string]struct {
		class string
		nodes []*v1.Node
		want  FreeStorage
	}{
		"one node":            {"local", []*v1.Node{b}, FreeStorage{Volumes: 2, Bytes: 5 * gi, Largest: 3 * gi}},
		"shared volumes once": {"local", []*v1.Node{a, b}, FreeStorage{Volumes: 3, Bytes: 7 * gi, Largest: 3 * gi}},
		"no node":             {"local", nil, FreeStorage{}},
		"capacity less what is reserved": {"made", []*v1.Node{a, b}, FreeStorage{
			Provisions: true, Limited: true, Capacity: 7 * gi, LargestCapacity: 4 * gi,
		}},
	} {
		if diff := cmp.Diff(test.want, w.FreeOn(test.class, test.nodes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
