// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// podless is a plan without a pod, for a node if that is not empty.
func (c *cluster) podless(node, entry string) *plan.Plan {
	c.t.Helper()
	p := c.plan(entry)
	return &plan.Plan{Node: node, Bindings: p.Bindings, Provisions: p.Provisions}
}

// TestPodless: plans without a pod need neither a pod nor, without provisions, a node; a node
// that they have must exist and be able to use the volume.
func TestPodless(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node, entry string
		want        plan.FailureCode
		text        string
	}{
		"any node":                           {entry: "a=pv-a"},
		"a node":                             {node: "n1", entry: "a=pv-a"},
		"a node that does not exist":         {node: "n9", entry: "a=pv-a", want: plan.NodeGone, text: `node "n9" was deleted while the volumes of "default/a" were bound`},
		"a node that cannot use it":          {node: "n1", entry: "a=pv-b", want: plan.VolumeOffNode, text: `binding claim "default/a": the node affinity of volume "pv-b" does not admit node "n1"`},
		"provisioned":                        {node: "n1", entry: "p+csi"},
		"provisioned on a node that is gone": {node: "n9", entry: "p+csi", want: plan.NodeGone, text: `node "n9" was deleted while the volumes of "default/p" were bound`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, claim("a"), claim("p"), volume("pv-a"), volume("pv-b").Hostname("n2"))
				clear(c.pods)
				c.after = func(call) { c.provision(v1.VolumeBound) }
				err := c.binder(binder.Direct).Bind(t.Context(), c.podless(tc.node, tc.entry))
				if failure(err) != tc.want || err != nil && err.Error() != tc.text {
					t.Errorf("error %v, want %s: %s", err, tc.want, tc.text)
				}
				bound := 0
				for _, pvc := range c.claims {
					if plan.IsBound(pvc) {
						bound++
					}
				}
				if want := map[bool]int{true: 1}[tc.want == ""]; bound != want {
					t.Errorf("%d claims are bound, want %d; writes %v", bound, want, c.log())
				}
			})
		})
	}
}

// TestPodlessStoppedAtAnyWrite: a plan without a pod is stopped at each of its writes, in every
// way; the next attempt completes it.
func TestPodlessStoppedAtAnyWrite(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"a=pv-a", "p+csi"} {
		for _, h := range []halt{{}, {after: true}, {dead: true}, {dead: true, after: true}} {
			for n := 1; ; n++ {
				reached := true
				t.Run(fmt.Sprintf("%s %s write %d", entry, h, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newCluster(t, claim("a"), claim("p"), volume("pv-a"))
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						stopped := c.stopAt(n, h, cancel)
						err := c.binder(binder.Direct).Bind(ctx, c.podless("n1", entry))
						if reached = stopped(); reached != (err != nil) {
							t.Fatalf("stopped %t, error %v", reached, err)
						}
						c.before, c.after = nil, func(call) { c.provision(v1.VolumeBound) }
						c.provision(v1.VolumeBound)
						if err := c.binder(binder.Direct).Bind(t.Context(), c.podless("n1", entry)); err != nil {
							t.Fatalf("the next attempt cannot complete it: %v", err)
						}
						name := entry[:1]
						volume := c.Volume("pv-" + name)
						if got := c.Claim("default", name).Spec.VolumeName; got != volume.Name || string(volume.Spec.ClaimRef.UID) != "uid-"+name {
							t.Errorf("the claim has volume %q; writes %v", got, c.log())
						}
					})
				})
				if !reached {
					break
				}
			}
		}
	}
}

// resync lets the controller sync all volumes, as the real one does every 15 seconds: it removes
// its view of a binding that another one preceded.
func (a *actors) resync() {
	for name := range a.k.volumes {
		a.k.volumeQueue[name] = true
	}
	a.settle()
}

// TestPodlessBesidePod: a pod that appears while its claim is bound without one gets another
// volume from the scheduler. The claim has one of the volumes, the other is free again, beside
// a PV controller that acts at any time.
func TestPodlessBesidePod(t *testing.T) {
	t.Parallel()
	for name, cancels := range map[string]bool{"no binder is stopped": false, "the binder without a pod is stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volumes := map[string]int{}
			for seed := range uint64(10 * seeds) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, claim("a"), volume("pv-a"), volume("pv-b"))
					a := act(c, seed)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if cancels {
						a.cancel = cancel
					}
					now := c.launch(ctx, binder.Direct, c.podless("", "a=pv-a"))
					scheduled := c.launch(t.Context(), binder.Direct, c.plan("a=pv-b"))
					lost := 0
					for _, err := range a.finish(now, scheduled) {
						if _, ok := errors.AsType[*plan.Failure](err); ok {
							lost++
						} else if err != nil && !errors.Is(err, context.Canceled) {
							t.Errorf("seed %d: %v", seed, err)
						}
					}
					a.resync()
					a.checkAtRest()
					has := c.Claim("default", "a").Spec.VolumeName
					if volumes[has]++; has == "" || lost > 1 {
						t.Errorf("seed %d: the claim has volume %q, %d binders have failed; writes %v", seed, has, lost, c.log())
					}
				})
			}
			if volumes["pv-a"] == 0 || volumes["pv-b"] == 0 {
				t.Errorf("volumes of the claim: %v, want that each binder is first at times", volumes)
			}
		})
	}
}
