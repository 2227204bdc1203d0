// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

// actors drive a binder and a PV controller against one cluster, in an order
// drawn from a seed: before and after each request of the binder the controller
// takes any number of steps, up to a whole binding.
type actors struct {
	c   *cluster
	mu  sync.Mutex
	k   *controller
	rng *rand.Rand
	// cancel, if set, ends the binder's context at some request.
	cancel context.CancelFunc
	// conflicts makes requests for volume pv-b fail.
	refuseB bool
}

func act(c *cluster, seed uint64) *actors {
	rng := rand.New(rand.NewPCG(seed, seed))
	a := &actors{c: c, rng: rng, k: newController(c, rng)}
	c.before = func(this call) error {
		a.between()
		if a.refuseB && this.verb == "PUT" && this.resource == "persistentvolumes" && this.name == "pv-b" {
			return forbidden(this.resource)
		}
		return nil
	}
	c.after = func(call) { a.between() }
	return a
}

func (a *actors) between() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.c.provision(v1.VolumePending)
	for range a.rng.IntN(4) {
		a.k.step()
	}
	if a.cancel != nil && a.rng.IntN(6) == 0 {
		a.cancel()
	}
}

// finish waits until all calls have returned and the controller has nothing left to do.
func (a *actors) finish(calls ...<-chan error) []error {
	errs := a.answers(calls...)
	a.settle()
	return errs
}

// answers runs the controller while the binders wait, and advances time when it has nothing to
// do either, until all calls have returned.
func (a *actors) answers(calls ...<-chan error) []error {
	var errs []error
	for _, call := range calls {
		for open := true; open; {
			synctest.Wait()
			select {
			case err := <-call:
				errs, open = append(errs, err), false
			default:
				if !a.step() {
					<-time.After(time.Second) // of the bubble's clock
				}
			}
		}
	}
	return errs
}

func (a *actors) step() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.c.provision(v1.VolumePending)
	return a.k.step()
}

// settle runs the controller until it has nothing left to do.
func (a *actors) settle() {
	for steps := 0; a.step(); steps++ {
		if steps > 10000 {
			a.c.t.Fatalf("the PV controller never comes to rest; writes %v", a.c.log())
		}
	}
}

// checkAtRest checks the invariants that hold when no writer has work left: claims and volumes
// refer to each other or to nothing.
func (a *actors) checkAtRest() {
	c := a.c
	c.t.Helper()
	if c.lost > 0 {
		c.t.Errorf("a claim was marked Lost; writes %v", c.log())
	}
	for name, volume := range c.volumes {
		if volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID == "" {
			if volume.Status.Phase != v1.VolumeAvailable {
				c.t.Errorf("volume %s is free and %s", name, volume.Status.Phase)
			}
			continue
		}
		claim := c.claims["default/"+volume.Spec.ClaimRef.Name]
		if claim.Spec.VolumeName != name || claim.Status.Phase != v1.ClaimBound || volume.Status.Phase != v1.VolumeBound {
			c.t.Errorf("volume %s (%s) and claim %s (%q, %s) are half-made; writes %v",
				name, volume.Status.Phase, claim.Name, claim.Spec.VolumeName, claim.Status.Phase, c.log())
		}
	}
	for _, claim := range c.claims {
		if claim.Spec.VolumeName == "" && claim.Status.Phase != v1.ClaimPending {
			c.t.Errorf("claim %s is open and %s", claim.Name, claim.Status.Phase)
		}
	}
}

// seeds is the number of orders of each scenario.
const seeds = 60

// Beside a PV controller that acts at any time, every binding succeeds, and no claim is ever
// marked Lost.
func TestBesidePVController(t *testing.T) {
	t.Parallel()
	plans := map[string][]string{
		"static":                            {"a=pv-a", "b=pv-b"},
		"pre-bound by its owner":            {"a=pv-a", "n=pv-n"},
		"provisioned":                       {"p+csi"},
		"static, pre-bound and provisioned": {"a=pv-a", "n=pv-n", "p+csi"},
	}
	for name, entries := range plans {
		for _, mode := range []binder.Mode{binder.Direct, binder.PVController} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(seeds) {
					synctest.Test(t, func(t *testing.T) {
						c := newCluster(t, claim("a"), claim("b"), claim("n"), claim("p"), volume("pv-a"), volume("pv-b"), volume("pv-n").ClaimRef("default", "n", ""))
						a := act(c, seed)
						for _, err := range a.finish(c.start(t.Context(), mode, c.plan(entries...))) {
							if err != nil {
								t.Errorf("seed %d: %v", seed, err)
							}
						}
						a.checkAtRest()
						for _, entry := range entries {
							name, _, _ := strings.Cut(strings.ReplaceAll(entry, "+", "="), "=")
							if got := c.Claim("default", name).Spec.VolumeName; got != "pv-"+name {
								t.Errorf("seed %d: claim %s has volume %q", seed, name, got)
							}
						}
					})
				}
			})
		}
	}
}

// The same, with a binder that is canceled at any request, or fails on one of its claims and
// undoes the rest: the PV controller completes the remaining bindings, or the volume is free
// for another pod.
func TestStoppedBesidePVController(t *testing.T) {
	t.Parallel()
	for _, mode := range []binder.Mode{binder.Direct, binder.PVController} {
		for _, refuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s refused %t", mode, refuse), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(seeds) {
					synctest.Test(t, func(t *testing.T) {
						// The PV controller was interrupted while it unbound pv-n.
						left := volume("pv-n").ClaimRef("default", "n", "").Phase(v1.VolumeBound)
						c := newCluster(t, claim("a"), claim("b"), claim("n"), volume("pv-a"), volume("pv-b"), left)
						a := act(c, seed)
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if a.refuseB = refuse; !refuse {
							a.cancel = cancel
						}
						a.finish(c.start(ctx, mode, c.plan("a=pv-a", "b=pv-b", "n=pv-n")))
						a.checkAtRest()

						a.cancel, a.refuseB = nil, false
						rest := &plan.Plan{Pod: pod, PodUID: "pod-uid", Node: "n1"}
						for _, name := range []string{"a", "b", "n"} {
							if claim := c.Claim("default", name); claim.Spec.VolumeName == "" {
								rest.Bindings = append(rest.Bindings, plan.Binding{Claim: claim, Volume: c.Volume("pv-" + name)})
							}
						}
						for _, err := range a.finish(c.start(t.Context(), mode, rest)) {
							if err != nil {
								t.Errorf("seed %d: the next cycle: %v", seed, err)
							}
						}
						a.checkAtRest()
					})
				}
			})
		}
	}
}

// Two pods share a claim, in two binders of any mode (two schedulers, or two cycles of one):
// one of them fails on its other claim and undoes.
func TestSharedClaimBesidePVController(t *testing.T) {
	t.Parallel()
	modes := []binder.Mode{binder.Direct, binder.PVController}
	for _, first := range modes {
		for _, second := range modes {
			for name, pv := range map[string]func() *builders.PV{
				"a free volume":      func() *builders.PV { return volume("pv-a") },
				"a pre-bound volume": func() *builders.PV { return volume("pv-a").ClaimRef("default", "a", "") },
			} {
				t.Run(fmt.Sprintf("%s and %s, %s", first, second, name), func(t *testing.T) {
					t.Parallel()
					for seed := range uint64(seeds) {
						synctest.Test(t, func(t *testing.T) {
							c := newCluster(t, claim("a"), claim("b"), pv(), volume("pv-b"))
							a := act(c, seed)
							a.refuseB = true
							both, shared := c.plan("a=pv-a", "b=pv-b"), c.plan("a=pv-a")
							one := c.launch(t.Context(), first, both)
							two := c.launch(t.Context(), second, shared)
							a.finish(one, two)
							a.checkAtRest()
						})
					}
				})
			}
		}
	}
}

// A binder fails on its other claim and undoes. As soon as its volume is free another claim
// gets it, which a lagging PV controller must not treat as misbound. One pod has that claim,
// or two, of which one finds the claimRef of the other; or its binder stops after it has
// written the claimRef, and another one continues.
func TestTakenAfterUndoBesidePVController(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(*actors){
		"one pod": func(a *actors) { a.answers(a.c.start(a.c.t.Context(), binder.Direct, a.c.plan("x=pv-a"))) },
		"two pods": func(a *actors) {
			p := a.c.plan("x=pv-a")
			a.answers(a.c.launch(a.c.t.Context(), binder.Direct, p), a.c.launch(a.c.t.Context(), binder.Direct, p))
		},
		"two pods, one of them by the PV controller": func(a *actors) {
			p := a.c.plan("x=pv-a")
			a.answers(a.c.launch(a.c.t.Context(), binder.PVController, p), a.c.launch(a.c.t.Context(), binder.Direct, p))
		},
		"one pod, at the second attempt": func(a *actors) {
			claimed, _, why := a.c.plan("x=pv-a").Bindings[0].ClaimVolume(a.c.Volume("pv-a"))
			if why != nil {
				a.c.t.Fatal(why)
			}
			if _, err := a.c.putVolume(claimed, false); err != nil {
				a.c.t.Fatal(err)
			}
			a.answers(a.c.start(a.c.t.Context(), binder.Direct, a.c.plan("x=pv-a")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takenAfterUndo(t, take)
		})
	}
}

func takenAfterUndo(t *testing.T, take func(*actors)) {
	t.Helper()
	taken := 0
	for seed := range uint64(10 * seeds) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, claim("a"), claim("b"), claim("x"), volume("pv-a"), volume("pv-b"))
			a := act(c, seed)
			a.refuseB = true
			a.answers(c.start(t.Context(), binder.Direct, c.plan("a=pv-a", "b=pv-b")))
			for free := false; !free; {
				pv := c.Volume("pv-a")
				if free = pv.Spec.ClaimRef == nil && pv.Status.Phase == v1.VolumeAvailable; !free && !a.step() {
					return // the PV controller has completed what was begun
				}
			}
			take(a)
			a.settle()
			a.checkAtRest()
			if c.Claim("default", "x").Spec.VolumeName == "pv-a" {
				taken++
			}
		})
	}
	if taken == 0 {
		t.Error("the volume never got to the other claim")
	}
	t.Logf("%d of %d times the other claim has the volume", taken, 10*seeds)
}
