// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/test/deadline"
)

// TestReadyWaitsForDrivers: Ready waits for CSIDrivers and CSINodes, though they have no
// handler.
func TestReadyWaitsForDrivers(t *testing.T) {
	t.Parallel()
	for i, kind := range []string{"csidrivers", "csinodes"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := deadline.Context(t.Context())
			defer cancel()
			client, answers := fake.NewClientset(), atomic.Bool{}
			client.PrependReactor("list", kind, func(clienttesting.Action) (bool, runtime.Object, error) {
				return !answers.Load(), nil, errors.New("the API server is busy")
			})
			factory := informers.NewSharedInformerFactory(client, 0)
			c, err := New(Config{Informers: factory})
			if err != nil {
				t.Fatal(err)
			}
			factory.Start(ctx.Done())
			defer factory.Shutdown()
			defer cancel()
			// c.synced begins with CSIDrivers and CSINodes.
			if !cache.WaitForCacheSync(ctx.Done(), slices.Delete(slices.Clone(c.synced), i, i+1)...) {
				t.Fatal(context.Cause(ctx))
			}
			now := make(chan struct{})
			close(now)
			if c.Ready(now) {
				t.Error("ready without " + kind)
			}
			answers.Store(true)
			if !c.Ready(ctx.Done()) {
				t.Error("not ready with everything synced")
			}
		})
	}
}
