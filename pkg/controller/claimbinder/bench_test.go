// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"fmt"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
)

// BenchmarkRun is a run for a class with 100,000 claims that no volume serves. Target on two
// cores: at most a second; the next run begins after nine times that.
func BenchmarkRun(b *testing.B) {
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := New(Config{Client: client, Informers: factory, Events: events.NewFakeRecorder(0)})
	if err != nil {
		b.Fatal(err)
	}
	defer c.binding.ShutDown()
	defer c.classes.ShutDown()
	if err := factory.Storage().V1().StorageClasses().Informer().GetStore().Add(class(static)); err != nil {
		b.Fatal(err)
	}
	for i := range 100_000 {
		waits := claim(fmt.Sprintf("c%06d", i)).Request("500Gi").Obj()
		if err := c.claims.GetStore().Add(waits); err != nil {
			b.Fatal(err)
		}
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
