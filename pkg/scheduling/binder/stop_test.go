// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// provision simulates an external provisioner, and a PV controller that has observed the
// volume: it creates volume pv-p for claim p when selected-node is written.
func (c *cluster) provision(phase v1.PersistentVolumePhase) {
	pvc := c.Claim("default", "p")
	if pvc == nil || pvc.Annotations[plan.AnnSelectedNode] != "n1" || c.Volume("pv-p") != nil {
		return
	}
	made := volume("pv-p").ClaimRef("default", "p", "uid-p").Phase(phase).ProvisionedBy("csi").Obj()
	c.change(func() {
		made.ResourceVersion = c.next()
		c.volumes["pv-p"] = made
	})
}

// planNow plans again from the current objects, as the next scheduling cycle does.
func (c *cluster) planNow() *plan.Plan {
	var entries []string
	for _, name := range []string{"a", "b"} {
		if c.Claim("default", name).Spec.VolumeName == "" {
			entries = append(entries, name+"=pv-"+name)
		}
	}
	if c.Claim("default", "p").Spec.VolumeName == "" {
		entries = append(entries, "p+csi")
	}
	return c.plan(entries...)
}

// halt is how the binder is stopped at a write.
type halt struct {
	// after: the write was executed; else it is not.
	after bool
	// dead: the process was killed and sends no more requests. Else its context is
	// canceled.
	dead bool
}

func (h halt) String() string {
	when, how := "before", "cancelled"
	if h.after {
		when = "after"
	}
	if h.dead {
		how = "killed"
	}
	return how + " " + when
}

// stopAt makes the cluster stop the binder at the n-th write.
func (c *cluster) stopAt(n int, h halt, cancel context.CancelFunc) (reached func() bool) {
	var mu sync.Mutex
	writes, stopped := 0, false
	ordinal := map[call]int{} // of the newest write of this kind
	gone := errors.New("connection refused")
	c.before = func(this call) error {
		mu.Lock()
		defer mu.Unlock()
		if stopped && h.dead {
			return gone
		}
		if this.verb != "PUT" {
			return nil
		}
		writes++
		ordinal[this] = writes
		if writes != n || h.after {
			return nil
		}
		stopped = true
		cancel()
		if h.dead {
			return gone
		}
		return nil
	}
	c.after = func(this call) {
		if this.verb != "PUT" {
			return
		}
		c.provision(v1.VolumeBound)
		mu.Lock()
		defer mu.Unlock()
		if ordinal[this] == n && h.after && !stopped {
			stopped = true
			cancel()
		}
	}
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return stopped
	}
}

// Direct is stopped at every one of its writes, in every way. cluster.check always holds. If
// it is canceled before the first claim is written, the static volumes are free again; after
// that, everything is bound. The next cycle can always complete the rest.
func TestDirectStoppedAtAnyWrite(t *testing.T) {
	t.Parallel()
	for _, h := range []halt{{}, {after: true}, {dead: true}, {dead: true, after: true}} {
		for n := 1; ; n++ {
			reached := true
			t.Run(fmt.Sprintf("%s write %d", h, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { // for there is no PV controller, and Direct waits for it
					c := newCluster(t, claim("a"), claim("b"), claim("p"), volume("pv-a"), volume("pv-b"))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					stopped := c.stopAt(n, h, cancel)
					err := c.binder(binder.Direct).Bind(ctx, c.plan("a=pv-a", "b=pv-b", "p+csi"))
					if reached = stopped(); reached != (err != nil) {
						t.Fatalf("stopped %t, error %v", reached, err)
					}
					if !h.dead && reached {
						c.checkCancelled(err)
					}
					c.before, c.after = nil, func(call) { c.provision(v1.VolumeBound) }
					c.provision(v1.VolumeBound)
					if err := c.binder(binder.Direct).Bind(t.Context(), c.planNow()); err != nil {
						t.Fatalf("the next cycle cannot complete it: %v", err)
					}
					c.checkAllReferToEachOther()
				})
			})
			if !reached {
				break
			}
		}
	}
}

func (c *cluster) checkCancelled(err error) {
	c.t.Helper()
	if !errors.Is(err, context.Canceled) {
		c.t.Errorf("error %v, want that of the context", err)
	}
	claimed := 0
	for _, write := range c.log() {
		if name, ok := strings.CutPrefix(write, "persistentvolumeclaims "); ok && c.Claim("default", name).Spec.VolumeName != "" {
			claimed++
		}
	}
	if claimed > 0 {
		c.letPhasesBeWritten()
	}
	a, b := c.state("a", "pv-a"), c.state("b", "pv-b")
	if claimed == 0 && (a != " Pending free Available" || b != " Pending free Available") {
		c.t.Errorf("not undone: %q, %q; writes %v", a, b, c.log())
	}
	if claimed > 0 && (a != bound || b != "pv-b Bound b:uid-b Bound") {
		c.t.Errorf("not carried forward: %q, %q; writes %v", a, b, c.log())
	}
}

func (c *cluster) checkAllReferToEachOther() {
	c.t.Helper()
	for _, name := range []string{"a", "b", "p"} {
		volume := c.Volume("pv-" + name)
		if got := c.Claim("default", name).Spec.VolumeName; got != "pv-"+name || string(volume.Spec.ClaimRef.UID) != "uid-"+name {
			c.t.Errorf("claim %s: volume %q", name, got)
		}
	}
}

func TestPVControllerModeStoppedAtAnyWrite(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		// Two claimRefs and a selected-node: the third is the last write.
		for n := 1; n <= 3; n++ {
			t.Run(fmt.Sprintf("after %t, write %d", after, n), func(t *testing.T) {
				c := newCluster(t, claim("a"), claim("b"), claim("p"), volume("pv-a"), volume("pv-b"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c.stopAt(n, halt{after: after}, cancel)
				err := c.binder(binder.PVController).Bind(ctx, c.plan("a=pv-a", "b=pv-b", "p+csi"))
				c.checkCancelled(err)
				if got := c.Claim("default", "p").Annotations[plan.AnnSelectedNode]; got != "" {
					t.Errorf("selected-node %q was not undone before any provisioner began", got)
				}
			})
		}
	}
}

// A preemption cancels the call while requests of step 1 are in progress. Bind waits for their
// responses, without which it is unknown what to undo.
func TestCancelledWhileWriting(t *testing.T) {
	t.Parallel()
	c := newCluster(t, claim("a"), claim("b"), volume("pv-a"), volume("pv-b"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var under sync.WaitGroup
	under.Add(2)
	var arrived sync.Map
	c.before = func(this call) error {
		if _, again := arrived.LoadOrStore(this.String(), true); !again && this.verb == "PUT" {
			under.Done()
			under.Wait()
			cancel()
		}
		return nil
	}
	err := c.binder(binder.Direct).Bind(ctx, c.plan("a=pv-a", "b=pv-b"))
	c.checkCancelled(err)
	if len(c.log()) != 4 {
		t.Errorf("writes %v, want two and their undoing", c.log())
	}
}

// Shutdown waits for the last write of calls whose context ended, undo included; a call that
// begins later writes nothing.
func TestSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, claim("a"), claim("b"), claim("p"), volume("pv-a"), volume("pv-b"))
		b := c.binder(binder.Direct)
		b.Shutdown(t.Context()) // nothing is under way
		ctx, cancel := context.WithCancel(t.Context())
		c.before = func(this call) error {
			if this.verb == "PUT" && this.name == "pv-a" {
				<-time.After(2 * time.Second) // the API server is slow
			}
			return nil
		}
		calls := []*plan.Plan{c.plan("a=pv-a"), c.plan("p+csi")}
		done := make(chan error, len(calls))
		for _, p := range calls {
			go func() { done <- b.Bind(ctx, p) }()
		}
		synctest.Wait()

		limited, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		begin := time.Now()
		b.Shutdown(limited)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("waited %s for calls under way, want 1s", took)
		}
		cancel()
		b.Shutdown(t.Context())
		writes := len(c.log())
		synctest.Wait() // the calls' goroutines have still to return
		if len(c.log()) != writes || len(done) != len(calls) || c.state("a", "pv-a") != " Pending free Available" {
			t.Errorf("%d of %d calls have returned, state %q; writes %v", len(done), len(calls), c.state("a", "pv-a"), c.log())
		}
		if err := b.Bind(ctx, c.plan("b=pv-b")); !errors.Is(err, context.Canceled) || len(c.log()) != writes {
			t.Errorf("error %v; writes %v", err, c.log())
		}
	})
}

// A volume that another claim has ends the binding of the others.
func TestFailureUndoesTheOthers(t *testing.T) {
	t.Parallel()
	for _, mode := range []binder.Mode{binder.Direct, binder.PVController} {
		c := newCluster(t, claim("a"), claim("b"), volume("pv-a"), volume("pv-b"))
		p := c.plan("a=pv-a", "b=pv-b")
		c.editVolume("pv-b", func(v *v1.PersistentVolume) {
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "x", Name: "y", UID: "z"}
		})
		err := c.binder(mode).Bind(t.Context(), p)
		if want := `binding claim "default/b": volume "pv-b" was claimed by "x/y"`; err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", mode, err, want)
		}
		if got := c.state("a", "pv-a"); got != " Pending free Available" {
			t.Errorf("%s: %q", mode, got)
		}
	}
}

// Another writer continued from our claimRef: it stays.
func TestUndoLeavesWhatOthersRelyOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, claim("a"), claim("b"), volume("pv-a"), volume("pv-b"))
	p := c.plan("a=pv-a", "b=pv-b")
	c.before = func(this call) error {
		if this.verb == "PUT" && this.name == "pv-b" {
			c.until(func() bool { return c.Volume("pv-a").Status.Phase == v1.VolumeBound })
			return forbidden("persistentvolumes")
		}
		return nil
	}
	c.after = func(this call) {
		if this.verb == "PUT" && this.name == "pv-a" && c.Volume("pv-a").Status.Phase == v1.VolumeAvailable {
			c.editVolume("pv-a", func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound })
		}
	}
	if err := c.binder(binder.Direct).Bind(t.Context(), p); err == nil {
		t.Fatal("no error")
	}
	if got := c.state("a", "pv-a"); got != " Pending a:uid-a Bound" {
		t.Errorf("state %q; writes %v", got, c.log())
	}
}

// Two pods share claim a. One fails on its other claim and undoes, while the other has found
// the claimRef of pv-a in place and is about to bind the claim: the claimRef must stay.
func TestSharedClaimSurvivesTheOthersUndo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, claim("a"), claim("b"), volume("pv-a"), volume("pv-b"))
	failing, shared := c.plan("a=pv-a", "b=pv-b"), c.plan("a=pv-a")
	adopted, undone := make(chan struct{}), make(chan struct{})
	c.before = func(this call) error {
		switch this.String() {
		case "PUT persistentvolumes pv-b":
			<-adopted
			return forbidden("persistentvolumes")
		case "PUT persistentvolumeclaims a":
			close(adopted)
			<-undone
		}
		return nil
	}
	first := c.launch(t.Context(), binder.Direct, failing)
	c.until(func() bool { return c.Volume("pv-a").Spec.ClaimRef != nil })
	second := c.launch(t.Context(), binder.Direct, shared)
	if err := <-first; err == nil {
		t.Error("no error")
	}
	close(undone)
	if err := <-second; err != nil {
		t.Error(err)
	}
	if got := c.state("a", "pv-a"); got != bound {
		t.Errorf("state %q; writes %v", got, c.log())
	}
}

// One claim is bound, and the phase of its volume is not written, when the API server rejects
// the other: the bound one cannot be undone.
func TestBoundClaimIsNotUndone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, claim("a"), claim("b"), volume("pv-a"), volume("pv-b"))
	p := c.plan("a=pv-a", "b=pv-b")
	c.before = func(this call) error {
		switch {
		case this.resource == "persistentvolumes/status":
			return forbidden(this.resource)
		case this.String() == "PUT persistentvolumeclaims b":
			c.editClaim("b", func(p *v1.PersistentVolumeClaim) { p.DeletionTimestamp = claim("x").Deleting().Obj().DeletionTimestamp })
		}
		return nil
	}
	if got := failure(c.binder(binder.Direct).Bind(t.Context(), p)); got != plan.ClaimDeleting {
		t.Errorf("failure %q", got)
	}
	if got := c.state("a", "pv-a"); got != "pv-a Bound a:uid-a Available" {
		t.Errorf("a: %q", got)
	}
	if got := c.state("b", "pv-b"); got != " Pending free Available" {
		t.Errorf("b: %q", got)
	}
}

// until waits until the cluster has a state.
func (c *cluster) until(reached func() bool) {
	changed, stop := c.Subscribe(nil)
	defer stop()
	for !reached() {
		<-changed
	}
}
