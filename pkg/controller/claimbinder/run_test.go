// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
)

// storesOnly returns a controller whose informers do not run. Its stores have a late-binding class.
func storesOnly(t testing.TB) *Controller {
	t.Helper()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := New(Config{Client: client, Informers: factory, Events: events.NewFakeRecorder(0)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.binding.ShutDown)
	t.Cleanup(c.classes.ShutDown)
	if err := factory.Storage().V1().StorageClasses().Informer().GetStore().Add(class(static)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOwnWriteUnobserved: a claim that this process has bound gets no other volume while the
// informer has its former version.
func TestOwnWriteUnobserved(t *testing.T) {
	t.Parallel()
	c := storesOnly(t)
	if err := c.claims.GetStore().Add(claim("a").ResourceVersion("1").Obj()); err != nil {
		t.Fatal(err)
	}
	collect := func() int {
		r := newRun("local")
		c.collect(r, time.Now())
		return len(r.of)
	}
	if got := collect(); got != 1 {
		t.Errorf("%d claims before the write, want 1", got)
	}
	c.volumes.ApplyClaim(claim("a").ResourceVersion("2").Bound("v").Obj())
	if got := collect(); got != 0 {
		t.Errorf("%d claims after the write, want none", got)
	}
}

// BenchmarkRun is a run for a class with 100,000 claims that no volume serves. Target on two
// cores: at most a second; the next run begins after nine times that.
func BenchmarkRun(b *testing.B) {
	c := storesOnly(b)
	for i := range 100_000 {
		waits := claim(fmt.Sprintf("c%06d", i)).Request("500Gi").Obj()
		if err := c.claims.GetStore().Add(waits); err != nil {
			b.Fatal(err)
		}
		c.observe(keyOf(waits))
		c.stateOf(waits).event = eventNoVolume
	}
	for b.Loop() {
		if _, err := c.assign(b.Context(), "local"); err != nil {
			b.Fatal(err)
		}
	}
	if c.runs["local"].waiting != 100_000 {
		b.Errorf("%d claims wait", c.runs["local"].waiting)
	}
}

// BenchmarkNodeChanged is a change of a node's readiness while 100,000 claims wait. Target on two
// cores: at most 2 µs, whatever the number of claims.
func BenchmarkNodeChanged(b *testing.B) {
	c := storesOnly(b)
	for i := range 100_000 {
		waits := claim(fmt.Sprintf("c%06d", i)).Obj()
		if err := c.claims.GetStore().Add(waits); err != nil {
			b.Fatal(err)
		}
		c.observe(keyOf(waits))
	}
	ready, notReady := node("n1"), node("n1")
	notReady.Status.Conditions = nil
	for b.Loop() {
		c.nodeChanged(ready, notReady)
	}
}
