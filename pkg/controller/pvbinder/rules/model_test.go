// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

// object is a claim or a volume.
type object[T any] interface {
	metav1.Object
	DeepCopy() T
}

// store is the API server's objects of a kind, and what a controller's cache shows of them: an
// earlier version of each, or that it does not exist.
type store[T object[T]] struct {
	live, seen map[string]T
}

// world is a model of API server, users, scheduler and the controller's cache.
type world struct {
	*rand.Rand
	claims  store[*v1.PersistentVolumeClaim]
	volumes store[*v1.PersistentVolume]
	version int
	// current: the cache shows the live objects.
	current bool
	classes map[string]*storagev1.StorageClass
	log     []string
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1))}
	w.claims = store[*v1.PersistentVolumeClaim]{map[string]*v1.PersistentVolumeClaim{}, map[string]*v1.PersistentVolumeClaim{}}
	w.volumes = store[*v1.PersistentVolume]{map[string]*v1.PersistentVolume{}, map[string]*v1.PersistentVolume{}}
	w.classes = map[string]*storagev1.StorageClass{"now": builders.MakeClass("now").Immediate().Obj(), "late": builders.MakeClass("late").Obj()}
	return w
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// put writes an object if its version is the live one.
func put[T object[T]](w *world, s *store[T], o T) bool {
	live, ok := s.live[o.GetName()]
	if !ok || live.GetUID() != o.GetUID() || live.GetResourceVersion() != o.GetResourceVersion() {
		return false
	}
	create(w, s, o)
	return true
}

// create writes an object.
func create[T object[T]](w *world, s *store[T], o T) {
	w.version++
	o = o.DeepCopy()
	o.SetResourceVersion(strconv.Itoa(w.version))
	s.live[o.GetName()] = o
}

// look updates the cache of some objects, or of all.
func look[T object[T]](w *world, s *store[T], all bool) {
	for _, name := range slices.Sorted(maps.Keys(s.seen)) {
		if _, ok := s.live[name]; !ok && (all || w.IntN(4) == 0) {
			delete(s.seen, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.live)) {
		if all || w.IntN(4) == 0 {
			s.seen[name] = s.live[name]
		}
	}
}

// user is a random action of a user, an administrator or a scheduler.
func (w *world) user() {
	c, v := "c"+strconv.Itoa(w.IntN(3)), "v"+strconv.Itoa(w.IntN(3))
	claim, volume := w.claims.live[c], w.volumes.live[v]
	w.version++
	uid := strconv.Itoa(w.version)
	switch action := w.IntN(7); {
	case action == 0 && claim == nil:
		b := builders.MakePVC(c).UID(uid).Class([]string{"now", "late"}[w.IntN(2)]).Request([]string{"1Gi", "2Gi"}[w.IntN(2)])
		if w.IntN(4) == 0 {
			b.VolumeName(v)
		}
		create(w, &w.claims, b.Obj())
		w.note("user creates %s", c)
	case action == 1 && volume == nil:
		b := builders.MakePV(v).UID(uid).Class([]string{"now", "late"}[w.IntN(2)]).Capacity([]string{"1Gi", "2Gi"}[w.IntN(2)]).Phase(v1.VolumePending)
		switch {
		case w.IntN(4) == 0:
			b.ClaimRef("default", c, "")
		case w.IntN(4) == 0 && claim != nil:
			b.ClaimRef("default", c, string(claim.UID)).ProvisionedBy("p").ReclaimPolicy(v1.PersistentVolumeReclaimDelete)
		}
		create(w, &w.volumes, b.Obj())
		w.note("user creates %s", v)
	case action == 2 && claim != nil && w.IntN(4) == 0:
		delete(w.claims.live, c)
		w.note("user deletes %s", c)
	case action == 3 && volume != nil && w.IntN(6) == 0:
		delete(w.volumes.live, v)
		w.note("user deletes %s", v)
	case action == 4 && volume != nil && w.IntN(3) == 0 && volume.Spec.ClaimRef != nil:
		volume = volume.DeepCopy()
		volume.Spec.ClaimRef = nil
		create(w, &w.volumes, volume)
		w.note("user removes the claimRef of %s", v)
	case action == 5 && claim != nil && volume != nil && match.ClaimClass(claim) == "late" && claim.Spec.VolumeName == "" && match.Free(volume):
		want, write, why := plan.Binding{Claim: claim, Volume: volume}.ClaimVolume(volume)
		if write && why == nil {
			create(w, &w.volumes, want)
			w.note("scheduler claims %s for %s", v, c)
		}
	case action == 6 && claim != nil && volume != nil && match.RefersTo(volume.Spec.ClaimRef, claim) && volume.Spec.ClaimRef.UID != "":
		if want, write, why := (plan.Binding{Claim: claim, Volume: volume}).BindClaim(claim); write && why == nil {
			create(w, &w.claims, want)
			w.note("scheduler binds %s to %s", c, v)
		}
	}
}

// free is the controller's choice of a free volume, from its cache.
func (w *world) free(claim *v1.PersistentVolumeClaim) (best *v1.PersistentVolume) {
	r, err := match.NewRequest(claim)
	if err != nil {
		panic(err)
	}
	for _, volume := range w.volumes.seen {
		if v := match.NewVolume(volume); v.Free() && r.Matches(v) && (best == nil || match.Less(r, v, match.NewVolume(best))) {
			best = volume
		}
	}
	return best
}

// decideClaim is the controller's decision about a claim of its cache, reads included.
func (w *world) decideClaim(claim *v1.PersistentVolumeClaim) rules.Decision {
	f := rules.ClaimFacts{Claim: claim, Volume: w.volumes.seen[claim.Spec.VolumeName], Class: w.classes[match.ClaimClass(claim)]}
	for _, name := range slices.Sorted(maps.Keys(w.volumes.seen)) {
		if volume := w.volumes.seen[name]; match.RefersTo(volume.Spec.ClaimRef, claim) {
			f.Referring = append(f.Referring, volume)
		}
	}
	for {
		d := rules.DecideClaim(&f)
		switch d.Do {
		case rules.Match:
			f.Matched, f.Match = true, w.free(claim)
		case rules.ReadVolume:
			f.VolumeRead, f.Volume = true, w.volumes.live[claim.Spec.VolumeName]
		default:
			return d
		}
	}
}

// decideVolume is the controller's decision about a volume of its cache, reads included.
func (w *world) decideVolume(volume *v1.PersistentVolume) rules.Decision {
	f := rules.VolumeFacts{Volume: volume}
	for _, name := range slices.Sorted(maps.Keys(w.claims.seen)) {
		if claim := w.claims.seen[name]; claim.Spec.VolumeName == volume.Name && plan.IsBound(claim) && (f.Bound == nil || match.RefersTo(volume.Spec.ClaimRef, claim)) {
			f.Bound = claim
		}
	}
	if volume.Spec.ClaimRef != nil {
		f.Claim = w.claims.seen[volume.Spec.ClaimRef.Name]
	}
	d := rules.DecideVolume(&f)
	if d.Do == rules.ReadClaim {
		f.ClaimRead, f.Claim = true, w.claims.live[volume.Spec.ClaimRef.Name]
		d = rules.DecideVolume(&f)
	}
	return d
}

// act executes a decision and reports whether an object changed. Before a write the model's state
// must allow it.
func (w *world) act(t *testing.T, d rules.Decision) bool {
	t.Helper()
	var wrote bool
	switch d.Do {
	case rules.WriteVolume, rules.WriteVolumeStatus:
		was := w.volumes.live[d.Volume.Name]
		if wrote = put(w, &w.volumes, d.Volume); wrote {
			w.note("%s %s: phase %s, claimRef %s", d.Do, d.Volume.Name, d.Volume.Status.Phase, refUID(d.Volume))
			w.checkVolumeWrite(t, was, d.Volume)
		}
	case rules.WriteClaim, rules.WriteClaimStatus:
		if wrote = put(w, &w.claims, d.Claim); wrote {
			w.note("%s %s: phase %s, volume %s", d.Do, d.Claim.Name, d.Claim.Status.Phase, d.Claim.Spec.VolumeName)
			w.checkClaimWrite(t, d.Claim)
		}
	}
	return wrote
}

func refUID(volume *v1.PersistentVolume) types.UID {
	if volume.Spec.ClaimRef == nil {
		return ""
	}
	return volume.Spec.ClaimRef.UID
}

// owner returns the claim that the volume is bound to, nil for none.
func (w *world) owner(volume *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	for _, claim := range w.claims.live {
		if plan.IsBound(claim) && claim.Spec.VolumeName == volume.Name && claim.UID == refUID(volume) {
			return claim
		}
	}
	return nil
}

// checkVolumeWrite: a bound claim keeps its volume, and one whose claimRef was removed is not offered
// to others.
func (w *world) checkVolumeWrite(t *testing.T, was, is *v1.PersistentVolume) {
	t.Helper()
	if owner := w.owner(was); owner != nil && (refUID(is) != owner.UID || is.Status.Phase == v1.VolumeReleased || is.Status.Phase == v1.VolumeAvailable) {
		t.Errorf("volume %s was taken from its claim %s", is.Name, owner.Name)
	}
	for _, claim := range w.claims.live {
		if w.current && is.Spec.ClaimRef == nil && is.Status.Phase == v1.VolumeAvailable && plan.IsBound(claim) && claim.Spec.VolumeName == is.Name {
			t.Errorf("volume %s of claim %s is Available", is.Name, claim.Name)
		}
	}
}

// checkClaimWrite: a claim is Lost only without its volume, and bound only to a volume of its own.
func (w *world) checkClaimWrite(t *testing.T, claim *v1.PersistentVolumeClaim) {
	t.Helper()
	volume := w.volumes.live[claim.Spec.VolumeName]
	if claim.Status.Phase == v1.ClaimLost && volume != nil && refUID(volume) == claim.UID {
		t.Errorf("claim %s is Lost and has volume %s", claim.Name, volume.Name)
	}
}

// settle lets the controller act with a current cache until nothing is written.
func (w *world) settle(t *testing.T) {
	t.Helper()
	const most = 200
	w.current = true
	for range most {
		look(w, &w.claims, true)
		look(w, &w.volumes, true)
		wrote := false
		for _, decide := range w.decisions() {
			if wrote = w.act(t, decide()); wrote {
				break
			}
		}
		if !wrote {
			return
		}
	}
	t.Errorf("writes do not end")
}

// decisions are about all objects of the cache, in random order.
func (w *world) decisions() (all []func() rules.Decision) {
	for _, name := range slices.Sorted(maps.Keys(w.claims.seen)) {
		all = append(all, func() rules.Decision { return w.decideClaim(w.claims.seen[name]) })
	}
	for _, name := range slices.Sorted(maps.Keys(w.volumes.seen)) {
		all = append(all, func() rules.Decision { return w.decideVolume(w.volumes.seen[name]) })
	}
	w.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// checkSettled: bound pairs have phase Bound, and what fits is bound.
func (w *world) checkSettled(t *testing.T) {
	t.Helper()
	given := map[string]string{}
	for _, claim := range w.claims.live {
		volume := w.volumes.live[claim.Spec.VolumeName]
		switch own := volume != nil && refUID(volume) == claim.UID; {
		case plan.IsBound(claim) && own:
			if claim.Status.Phase != v1.ClaimBound || volume.Status.Phase != v1.VolumeBound {
				t.Errorf("claim %s is %s, its volume %s is %s", claim.Name, claim.Status.Phase, volume.Name, volume.Status.Phase)
			}
			if other := given[volume.Name]; other != "" {
				t.Errorf("volume %s is bound to %s and to %s", volume.Name, other, claim.Name)
			}
			given[volume.Name] = claim.Name
		case plan.IsBound(claim):
			if claim.Status.Phase != v1.ClaimLost {
				t.Errorf("claim %s is %s without its volume", claim.Name, claim.Status.Phase)
			}
		case match.ClaimClass(claim) == "now" && claim.Spec.VolumeName == "" && w.free(claim) != nil:
			t.Errorf("claim %s is %s, and volume %s fits", claim.Name, claim.Status.Phase, w.free(claim).Name)
		}
	}
	for _, volume := range w.volumes.live {
		claim := w.claimOf(volume)
		if ref := volume.Spec.ClaimRef; (ref == nil || ref.UID == "") && volume.Status.Phase != v1.VolumeAvailable {
			t.Errorf("volume %s without a claim is %s", volume.Name, volume.Status.Phase)
		} else if ref != nil && ref.UID != "" && claim == nil && volume.Status.Phase != v1.VolumeReleased {
			t.Errorf("volume %s of a deleted claim is %s", volume.Name, volume.Status.Phase)
		} else if claim != nil && plan.IsBound(claim) && claim.Spec.VolumeName != volume.Name && volume.Status.Phase != v1.VolumeReleased {
			t.Errorf("volume %s is %s, its claim has %s", volume.Name, volume.Status.Phase, claim.Spec.VolumeName)
		}
	}
}

// claimOf returns the claim that the claimRef names with its UID.
func (w *world) claimOf(volume *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	if ref := volume.Spec.ClaimRef; ref != nil {
		if claim := w.claims.live[ref.Name]; claim != nil && claim.UID == ref.UID {
			return claim
		}
	}
	return nil
}

// TestModel: from random states of three claims and three volumes, with a scheduler, users, and a
// cache that lags, decisions that are executed one by one reach a state in which nothing is written.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		w := newWorld(seed)
		for range 60 {
			if w.IntN(2) == 0 {
				w.user()
			}
			look(w, &w.claims, false)
			look(w, &w.volumes, false)
			if all := w.decisions(); len(all) > 0 {
				w.act(t, all[0]())
			}
		}
		w.settle(t)
		w.checkSettled(t)
		if t.Failed() {
			for _, line := range w.log {
				t.Log(line)
			}
			t.Fatalf("seed %d", seed)
		}
	}
}
