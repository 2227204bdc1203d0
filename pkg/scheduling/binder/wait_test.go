// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

// start binds in the background of a synctest bubble and returns when the
// binder waits for something.
func (c *cluster) start(ctx context.Context, mode binder.Mode, p *plan.Plan) <-chan error {
	c.t.Helper()
	done := c.launch(ctx, mode, p)
	synctest.Wait()
	return done
}

// launch binds in the background.
func (c *cluster) launch(ctx context.Context, mode binder.Mode, p *plan.Plan) <-chan error {
	c.t.Helper()
	b := c.binder(mode)
	done := make(chan error, 1)
	go func() { done <- b.Bind(ctx, p) }()
	return done
}

// letPhasesBeWritten lets the bubble's time pass until a binder writes the phases that no
// PV controller has set.
func (c *cluster) letPhasesBeWritten() {
	<-time.After(time.Minute)
	synctest.Wait()
}

// waits fails the test if the call has returned.
func (c *cluster) waits(done <-chan error) {
	c.t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		c.t.Fatalf("returned %v; writes %v", err, c.log())
	default:
	}
}

func TestDirectCompletesWhatWasProvisioned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), claim("p"), volume("pv-a"))
		done := c.start(t.Context(), binder.Direct, c.plan("a=pv-a", "p+csi"))
		c.waits(done)
		asked := c.Claim("default", "p").Annotations
		want := map[string]string{plan.AnnSelectedNode: "n1", plan.AnnStorageProvisioner: "csi", plan.AnnBetaStorageProvisioner: "csi"}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if got := c.state("a", "pv-a"); got != " Pending a:uid-a Available" {
			t.Errorf("claim a is to wait for p: %s", got)
		}
		// The PV controller does not know the new volume: bound to it, the
		// claim would be marked Lost.
		c.provision(v1.VolumePending)
		c.waits(done)
		c.editVolume("pv-p", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		c.letPhasesBeWritten()
		if got := c.state("a", "pv-a"); got != bound {
			t.Errorf("a: %s", got)
		}
		if got := c.state("p", "pv-p"); got != "pv-p Bound p:uid-p Bound" {
			t.Errorf("p: %s", got)
		}
	})
}

func TestProvisionerNamesItselfOnlyInDirect(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		mode        binder.Mode
		provisioner string
	}{
		"in-tree":             {mode: binder.Direct},
		"left to the PV ctrl": {mode: binder.PVController, provisioner: "csi"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, claim("p"))
				done := c.start(t.Context(), tc.mode, c.plan("p+"+tc.provisioner))
				c.waits(done)
				if got := c.Claim("default", "p").Annotations; len(got) != 1 || got[plan.AnnSelectedNode] != "n1" {
					t.Errorf("annotations %v, want selected-node alone", got)
				}
				c.editClaim("p", func(p *v1.PersistentVolumeClaim) { delete(p.Annotations, plan.AnnSelectedNode) })
				if got := failure(<-done); got != plan.ProvisioningFailed {
					t.Errorf("failure %q", got)
				}
			})
		})
	}
}

func TestPVControllerModeWaitsForTheController(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), volume("pv-a"))
		done := c.start(t.Context(), binder.PVController, c.plan("a=pv-a"))
		c.waits(done)
		c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
		c.waits(done)
		c.editClaim("a", func(p *v1.PersistentVolumeClaim) {
			p.Spec.VolumeName = "pv-a"
			p.Annotations = map[string]string{plan.AnnBindCompleted: "yes"}
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"persistentvolumes pv-a"}, c.log()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

// While claim p waits for its volume, an event ends the call at once with that cause,
// although other claims still wait, and a is free again.
func TestFirstCauseEndsTheWait(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do    func(*cluster)
		want  plan.FailureCode
		keepA bool
	}{
		"refused by the provisioner": {want: plan.ProvisioningFailed, do: func(c *cluster) {
			c.editClaim("p", func(p *v1.PersistentVolumeClaim) { delete(p.Annotations, plan.AnnSelectedNode) })
		}},
		"sent elsewhere": {want: plan.SelectedElsewhere, do: func(c *cluster) {
			c.editClaim("p", func(p *v1.PersistentVolumeClaim) { p.Annotations[plan.AnnSelectedNode] = "n2" })
		}},
		"claim to be provisioned deleted": {want: plan.ClaimGone, do: func(c *cluster) { c.change(func() { delete(c.claims, "default/p") }) }},
		"claim with a volume deleted":     {want: plan.ClaimGone, keepA: true, do: func(c *cluster) { c.change(func() { delete(c.claims, "default/a") }) }},
		"volume deleted":                  {want: plan.VolumeGone, keepA: true, do: func(c *cluster) { c.change(func() { delete(c.volumes, "pv-a") }) }},
		"claimRef reset":                  {want: plan.ClaimRefReset, do: func(c *cluster) { c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Spec.ClaimRef = nil }) }},
		"node deleted":                    {want: plan.NodeGone, do: func(c *cluster) { c.change(func() { delete(c.nodes, "n1") }) }},
		"pod deleted":                     {want: plan.PodGone, do: func(c *cluster) { c.change(func() { delete(c.pods, pod) }) }},
		"pod deleted and created again":   {want: plan.PodGone, do: func(c *cluster) { c.change(func() { c.pods[pod] = "new" }) }},
		"node relabelled away from the volume": {want: plan.VolumeOffNode, do: func(c *cluster) {
			c.change(func() { c.nodes["n1"] = builders.MakeNode("n1").Hostname("n9").Obj() })
		}},
		"made where the node cannot reach it": {want: plan.VolumeOffNode, do: func(c *cluster) {
			c.change(func() {
				c.volumes["pv-p"] = volume("pv-p").Hostname("n2").ClaimRef("default", "p", "uid-p").ResourceVersion(c.next()).Obj()
			})
		}},
		"claim lost": {want: plan.ClaimLost, do: func(c *cluster) {
			c.editClaim("p", func(p *v1.PersistentVolumeClaim) { p.Status.Phase = v1.ClaimLost })
		}},
	}
	for _, mode := range []binder.Mode{binder.Direct, binder.PVController} {
		for name, tc := range tests {
			t.Run(string(mode)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, claim("a"), claim("p"), claim("q"), volume("pv-a"))
					done := c.start(t.Context(), mode, c.plan("a=pv-a", "q+csi", "p+csi"))
					c.waits(done)
					start := time.Now()
					tc.do(c)
					if got := failure(<-done); got != tc.want {
						t.Errorf("failure %q, want %q", got, tc.want)
					}
					if took := time.Since(start); took > 0 {
						t.Errorf("took %s", took)
					}
					if tc.keepA {
						return
					}
					if got := c.state("a", "pv-a"); got != " Pending free Available" {
						t.Errorf("a was not undone: %s", got)
					}
				})
			})
		}
	}
}

func TestNodeDeletedBeforeThereIsAVolume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("p"))
		done := c.start(t.Context(), binder.Direct, c.plan("p+csi"))
		c.waits(done)
		c.change(func() { delete(c.nodes, "n1") })
		if got := failure(<-done); got != plan.NodeGone {
			t.Errorf("failure %q", got)
		}
	})
}

func TestTimeoutTellsWhatEachClaimWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), claim("p"), claim("q"), volume("pv-a"))
		start := time.Now()
		done := c.start(t.Context(), binder.PVController, c.plan("a=pv-a", "p+csi", "q+"))
		err := <-done
		if took := time.Since(start); took != 10*time.Minute {
			t.Errorf("took %s", took)
		}
		var timeout *binder.TimeoutError
		if !errors.As(err, &timeout) || !errors.Is(err, context.DeadlineExceeded) || len(timeout.Waiting) != 3 {
			t.Fatalf("error %v", err)
		}
		for _, want := range []string{
			`within 10m0s`,
			`claim "default/a" waits for the PV controller (kube-controller-manager) to bind it to volume "pv-a"`,
			`claim "default/p" waits for provisioner "csi" to create its volume on node "n1"`,
			`claim "default/q" waits for a provisioner to create`,
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error does not say %s:\n%v", want, err)
			}
		}
		if got := c.state("a", "pv-a"); got != " Pending free Available" {
			t.Errorf("a was not undone: %s", got)
		}
		if got := c.Claim("default", "p").Annotations[plan.AnnSelectedNode]; got != "n1" {
			t.Errorf("a timeout moved selected-node to %q", got)
		}
	})
}

// A volume that its owner has pre-bound by name, or whose binding to another claim was
// undone: the PV controller may not have observed our claimRef yet, and would mark the claim
// Lost.
func TestPVControllerIsGivenTime(t *testing.T) {
	t.Parallel()
	volumes := map[string]func() *builders.PV{
		"pre-bound": func() *builders.PV { return volume("pv-a").ClaimRef("default", "a", "") },
		"undone":    func() *builders.PV { return volume("pv-a").Annotation(wellknown.BindingUndoneAnnotation, "uid-x") },
	}
	for name, pv := range volumes {
		t.Run(name+", it takes note", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, claim("a"), pv())
				start := time.Now()
				done := c.start(t.Context(), binder.Direct, c.plan("a=pv-a"))
				c.waits(done)
				c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
				c.waits(done)
				c.editClaim("a", boundTo("pv-a"))
				if err := <-done; err != nil || time.Since(start) > 0 {
					t.Errorf("error %v after %s", err, time.Since(start))
				}
				c.editClaim("a", func(p *v1.PersistentVolumeClaim) { p.Status.Phase = v1.ClaimBound })
				if _, marked := c.Volume("pv-a").Annotations[wellknown.BindingUndoneAnnotation]; marked || c.state("a", "pv-a") != bound {
					t.Errorf("state %q, marked as undone: %t", c.state("a", "pv-a"), marked)
				}
			})
		})
		for _, timeout := range []time.Duration{time.Second, 10 * time.Minute} {
			t.Run(fmt.Sprintf("%s, there is none, and %s", name, timeout), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, claim("a"), pv())
					start := time.Now()
					err := c.binderFor(binder.Direct, timeout).Bind(t.Context(), c.plan("a=pv-a"))
					if took := time.Since(start); err != nil || took == 0 || took > 30*time.Second {
						t.Errorf("error %v after %s", err, took)
					}
					c.letPhasesBeWritten()
					if got := c.state("a", "pv-a"); got != bound {
						t.Errorf("state %q", got)
					}
				})
			})
		}
	}
}

// boundTo is the PV controller's write to a claim.
func boundTo(volume string) func(*v1.PersistentVolumeClaim) {
	return func(p *v1.PersistentVolumeClaim) {
		p.Spec.VolumeName = volume
		p.Annotations = map[string]string{plan.AnnBindCompleted: "yes", plan.AnnBoundByController: "yes"}
	}
}

// A PV controller that has set a volume Bound writes its claim next, with which our write
// would conflict. Direct waits for it for a second, or half of the remaining time.
func TestClaimIsLeftToThePVController(t *testing.T) {
	t.Parallel()
	begun := map[string]struct {
		objects []any
		entry   string
	}{
		"provisioned":                     {[]any{claim("p").SelectedNode("n1").Provisioner("csi"), volume("pv-p").ClaimRef("default", "p", "uid-p").Phase(v1.VolumeBound)}, "p+csi"},
		"claimRef of an earlier life":     {[]any{claim("p"), volume("pv-p").ClaimRef("default", "p", "uid-p").BoundByController().Phase(v1.VolumeBound)}, "p=pv-p"},
		"faster than our own next writes": {[]any{claim("p"), volume("pv-p")}, "p=pv-p"},
	}
	for name, tc := range begun {
		start := func(t *testing.T, timeout time.Duration) (*cluster, <-chan error) {
			c := newCluster(t, tc.objects...)
			c.after = func(this call) {
				if this.String() == "PUT persistentvolumes pv-p" {
					c.editVolume("pv-p", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
				}
			}
			done := make(chan error, 1)
			go func() { done <- c.binderFor(binder.Direct, timeout).Bind(t.Context(), c.plan(tc.entry)) }()
			c.waits(done)
			return c, done
		}
		t.Run(name+", it writes the claim", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, done := start(t, time.Minute)
				begin := time.Now()
				c.editClaim("p", boundTo("pv-p"))
				if err := <-done; err != nil || time.Since(begin) > 0 {
					t.Errorf("error %v after %s", err, time.Since(begin))
				}
				for _, write := range c.log() {
					if strings.HasPrefix(write, "persistentvolumeclaims") || strings.HasPrefix(write, "persistentvolumes/status") {
						t.Errorf("wrote %s, which the PV controller writes", write)
					}
				}
			})
		})
		for timeout, want := range map[time.Duration]time.Duration{time.Minute: time.Second, time.Second: time.Second / 2} {
			t.Run(fmt.Sprintf("%s, it does not within %s", name, want), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					begin := time.Now()
					c, done := start(t, timeout)
					if err := <-done; err != nil || time.Since(begin) != want {
						t.Errorf("error %v after %s, want none after %s", err, time.Since(begin), want)
					}
					if got := c.state("p", "pv-p"); got != "pv-p Bound p:uid-p Bound" {
						t.Errorf("state %q", got)
					}
				})
			})
		}
	}
}

// For a lagging PV controller Direct writes the phase of a provisioned volume. The PV
// controller may not know the volume, so it alone writes the claim, however long that takes.
func TestPhaseIsSetForABusyPVController(t *testing.T) {
	t.Parallel()
	const phaseWait, claimWait = 5 * time.Second, time.Second
	phase, rest := []string{"persistentvolumes/status pv-p"}, []string{"persistentvolumeclaims p", "persistentvolumeclaims/status p"}
	setPhase := func(c *cluster) {
		c.editVolume("pv-p", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
	}
	setClaim := func(c *cluster) { c.editClaim("p", boundTo("pv-p")) }
	tests := map[string]struct {
		meanwhile     func(c *cluster) // at once
		before, after func(c *cluster) // our write of the phase
		takes         time.Duration    // 0: longer than minutes
		want          []string         // our writes
	}{
		"it is minutes behind":           {want: phase},
		"the volume is deleted":          {meanwhile: func(c *cluster) { c.change(func() { delete(c.volumes, "pv-p") }) }},
		"it sets the phase in time":      {meanwhile: setPhase, takes: claimWait, want: rest},
		"it sets the phase just before":  {before: setPhase, takes: phaseWait + claimWait, want: rest},
		"it writes the claim just after": {after: setClaim, takes: phaseWait, want: phase},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, claim("p").SelectedNode("n1").Provisioner("csi"), volume("pv-p").ClaimRef("default", "p", "uid-p").Phase(v1.VolumePending))
				around := func(f func(*cluster)) func(call) {
					return func(this call) {
						if f != nil && this.String() == "PUT persistentvolumes/status pv-p" {
							f(c)
						}
					}
				}
				before := around(tc.before)
				c.before, c.after = func(this call) error { before(this); return nil }, around(tc.after)
				done := c.start(t.Context(), binder.Direct, c.plan("p+csi"))
				c.waits(done)
				begin := time.Now()
				if tc.meanwhile != nil {
					tc.meanwhile(c)
				}
				if tc.takes > 0 {
					if err := <-done; err != nil || time.Since(begin) != tc.takes {
						t.Errorf("error %v after %s, want none after %s", err, time.Since(begin), tc.takes)
					}
				} else {
					time.Sleep(3 * time.Minute) //nolint:forbidigo // the bubble's time
					c.waits(done)
				}
				if diff := cmp.Diff(tc.want, c.log()); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The phase of a volume whose claim is bound is the PV controller's to write, and no pod
// waits for it. It is set after ten seconds, unless the volume is no longer Available.
func TestPhaseIsLeftToThePVController(t *testing.T) {
	t.Parallel()
	const phase = "persistentvolumes/status pv-a"
	set := func(phase v1.PersistentVolumePhase) func(*cluster) {
		return func(c *cluster) { c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Status.Phase = phase }) }
	}
	tests := map[string]struct {
		meanwhile func(*cluster)
		want      bool // our write
		state     string
	}{
		"there is none":                 {meanwhile: func(*cluster) {}, want: true, state: bound},
		"it sets the phase":             {meanwhile: set(v1.VolumeBound), state: bound},
		"the claim is deleted":          {meanwhile: set(v1.VolumeReleased), state: "pv-a Bound a:uid-a Released"},
		"the scheduler is asked to end": {meanwhile: (*cluster).settle, state: "pv-a Bound a:uid-a Available"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, claim("a"), volume("pv-a"))
				begin := time.Now()
				if err := c.binder(binder.Direct).Bind(t.Context(), c.plan("a=pv-a")); err != nil || time.Since(begin) > 0 {
					t.Fatalf("error %v after %s", err, time.Since(begin))
				}
				<-time.After(9 * time.Second)
				if slices.Contains(c.log(), phase) {
					t.Errorf("wrote the phase after %s", time.Since(begin))
				}
				tc.meanwhile(c)
				c.letPhasesBeWritten()
				if got := slices.Contains(c.log(), phase); got != tc.want || c.state("a", "pv-a") != tc.state {
					t.Errorf("wrote the phase: %t, want %t; state %q, want %q", got, tc.want, c.state("a", "pv-a"), tc.state)
				}
			})
		})
	}
}

// A client with a rate limit sends requests seconds after they are made. One for a status
// that the PV controller has written meanwhile is canceled.
func TestStatusWriteIsWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), volume("pv-a"))
		c.after = func(this call) { c.hang = this.String() == "PUT persistentvolumeclaims a" }
		done := c.start(t.Context(), binder.Direct, c.plan("a=pv-a"))
		c.waits(done)
		begin := time.Now()
		c.editClaim("a", func(p *v1.PersistentVolumeClaim) { p.Status.Phase = v1.ClaimBound })
		if err := <-done; err != nil || time.Since(begin) > 0 {
			t.Errorf("error %v after %s", err, time.Since(begin))
		}
		c.hang = false
	})
}

// One without a response is canceled seconds after the context has ended.
func TestHangingStatusWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), volume("pv-a"))
		ctx, cancel := context.WithCancel(t.Context())
		c.after = func(this call) { c.hang = c.hang || this.String() == "PUT persistentvolumeclaims a" }
		done := c.start(ctx, binder.Direct, c.plan("a=pv-a"))
		c.waits(done)
		begin := time.Now()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || time.Since(begin) > time.Minute {
			t.Errorf("error %v after %s", err, time.Since(begin))
		}
	})
}

// Without a PV controller a static binding does not wait.
func TestWithoutPVControllerNothingWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), claim("b"), volume("pv-a"), volume("pv-b").ClaimRef("default", "b", "uid-b").BoundByController())
		begin := time.Now()
		if err := c.binder(binder.Direct).Bind(t.Context(), c.plan("a=pv-a", "b=pv-b")); err != nil || time.Since(begin) > 0 {
			t.Errorf("error %v after %s", err, time.Since(begin))
		}
	})
}

// With a timeout that is shorter than the PV controller takes, what one attempt has
// written is still there for the next.
func TestTimeoutLeavesTheRestToThePVController(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), volume("pv-a"))
		for range 2 {
			err := c.binderFor(binder.PVController, time.Second).Bind(t.Context(), c.plan("a=pv-a"))
			if _, timeout := errors.AsType[*binder.TimeoutError](err); !timeout {
				t.Fatalf("error %v", err)
			}
			if got := c.state("a", "pv-a"); got != " Pending a:uid-a Available" {
				t.Errorf("state %q", got)
			}
		}
		if got := c.log(); len(got) != 1 {
			t.Errorf("writes %v, want the claimRef once", got)
		}
	})
}

// The rights to write statuses are revoked after the start: the claims are bound, and the PV
// controller writes the statuses.
func TestStatusIsLeftToThePVController(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), volume("pv-a"))
		c.before = func(this call) error {
			if strings.HasSuffix(this.resource, "/status") {
				return forbidden(this.resource)
			}
			return nil
		}
		done := c.start(t.Context(), binder.Direct, c.plan("a=pv-a"))
		c.waits(done)
		c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
		c.waits(done)
		c.editClaim("a", func(p *v1.PersistentVolumeClaim) { p.Status.Phase = v1.ClaimBound })
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSelectedNodeOfAnotherNode(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		selected string
		exists   bool
		want     plan.FailureCode
	}{
		"the node is gone: overwritten":        {selected: "old"},
		"no node has such a name: overwritten": {selected: "old/../one"},
		"the node exists: it stays":            {selected: "old", exists: true, want: plan.SelectedElsewhere},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, claim("a"), claim("p").SelectedNode(tc.selected).Provisioner("csi"), volume("pv-a"))
				if tc.exists {
					c.nodes["old"] = builders.MakeNode("old").Obj()
				}
				c.after = func(call) { c.provision(v1.VolumeBound) }
				err := c.binder(binder.Direct).Bind(t.Context(), c.plan("a=pv-a", "p+csi"))
				if got := failure(err); got != tc.want {
					t.Fatalf("failure %q, want %q", got, tc.want)
				}
				c.letPhasesBeWritten()
				node, a := "n1", bound
				if tc.exists {
					node, a = "old", " Pending free Available"
				}
				if got := c.Claim("default", "p").Annotations[plan.AnnSelectedNode]; got != node {
					t.Errorf("selected-node %q, want %q", got, node)
				}
				if got := c.state("a", "pv-a"); got != a {
					t.Errorf("a: %q, want %q", got, a)
				}
			})
		})
	}
}

// A server that does not respond delays a canceled binding by seconds only.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), volume("pv-a"))
		ctx, cancel := context.WithCancel(t.Context())
		c.hang = true
		done := c.start(ctx, binder.Direct, c.plan("a=pv-a"))
		c.waits(done)
		start := time.Now()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("took %s", took)
		}
	})
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		denied []string
		broken bool
	}{
		"all":                 {},
		"stock roles":         {denied: []string{"update persistentvolumes/status", "update persistentvolumeclaims/status"}},
		"one":                 {denied: []string{"update persistentvolumeclaims/status"}},
		"no answer from auth": {broken: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.before = func(this call) error {
				if tc.broken {
					return errors.New("connection refused")
				}
				if slices.Contains(tc.denied, this.verb+" "+this.resource) {
					return forbidden(this.resource)
				}
				return nil
			}
			missing, err := binder.Allowed(t.Context(), c.client())
			if (err != nil) != tc.broken {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.denied, missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}
