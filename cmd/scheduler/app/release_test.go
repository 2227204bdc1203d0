// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

// busyPlugin has a binding in progress until idle is closed.
type busyPlugin struct {
	volumePlugin
	idle chan struct{}
}

func (p *busyPlugin) WaitForBindings(ctx context.Context) {
	select {
	case <-p.idle:
	case <-ctx.Done():
	}
}

func (p *busyPlugin) registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{configv1.PluginName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }}
}

// lock is a lease that records its holders.
type lock struct {
	resourcelock.Interface
	holders []string
}

func (l *lock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.holders = append(l.holders, record.HolderIdentity)
	return nil
}

// TestLeaseIsReleasedAfterBindings: a stopped leader keeps its lease until its bindings
// have ended, for at most drainTimeout, and renews it without waiting.
func TestLeaseIsReleasedAfterBindings(t *testing.T) {
	for name, ends := range map[string]time.Duration{"no binding": 0, "a binding": time.Second, "a binding that hangs": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				busy, inProgress := &busyPlugin{idle: make(chan struct{})}, &bindings{}
				if _, err := inProgress.track(busy.registry())[configv1.PluginName](t.Context(), nil, nil); err != nil {
					t.Fatal(err)
				}
				defer time.AfterFunc(ends, func() { close(busy.idle) }).Stop()
				inner := &lock{}
				lease, begin := lateRelease{inner, inProgress}, time.Now()
				for _, write := range []struct {
					holder string
					want   time.Duration
				}{{"me", 0}, {"", min(ends, drainTimeout)}} {
					if err := lease.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: write.holder}); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begin); took != write.want {
						t.Errorf("holder %q is written after %s, want %s", write.holder, took, write.want)
					}
				}
				if len(inner.holders) != 2 {
					t.Errorf("holders written: %q", inner.holders)
				}
			})
		})
	}
}

// TestSetupKeepsLeaseForBindings: the lease of a scheduler is released after its plugins'
// bindings.
func TestSetupKeepsLeaseForBindings(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	busy := &busyPlugin{idle: make(chan struct{})}
	completed, _, err := Setup(ctx, parse(t), busy.registry())
	if err != nil {
		t.Fatal(err)
	}
	lease, ok := completed.LeaderElection.Lock.(lateRelease)
	if !ok {
		t.Fatalf("the lease is a %T", completed.LeaderElection.Lock)
	}
	if len(lease.inProgress.plugins) != 1 || lease.inProgress.plugins[0] != drainer(busy) {
		t.Errorf("the lease waits for %v, want the plugin", lease.inProgress.plugins)
	}
}
