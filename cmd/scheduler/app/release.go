// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// drainTimeout bounds how long a leader that is stopped keeps its lease. It exceeds the 5
// seconds that the binder gives requests in progress, and is below the renew deadline,
// after which the lease is not released but expires.
const drainTimeout = 7 * time.Second

// drainer is a plugin with bindings in progress.
type drainer interface {
	WaitForBindings(ctx context.Context)
}

// bindings are the bindings in progress of a scheduler's plugins.
type bindings struct {
	mu      sync.Mutex
	plugins []drainer
}

// track returns a registry that records the plugins it creates.
func (b *bindings) track(plugins frameworkruntime.Registry) frameworkruntime.Registry {
	tracked := frameworkruntime.Registry{}
	for name, factory := range plugins {
		tracked[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := factory(ctx, args, handle)
			if s, ok := plugin.(drainer); ok && err == nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.plugins = append(b.plugins, s)
			}
			return plugin, err
		}
	}
	return tracked
}

// wait returns when no binding is in progress, or after drainTimeout.
func (b *bindings) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, plugin := range b.plugins {
		plugin.WaitForBindings(ctx)
	}
}

// lateRelease is a lease that a stopped leader releases after its bindings have ended,
// including those that are undone. Upstream releases it at once and exits: a claimRef
// could then be written while the next leader chooses another volume for the same claim.
type lateRelease struct {
	resourcelock.Interface
	inProgress *bindings
}

// Update writes the lease. A record without holder is a release: the scheduler's context
// has ended.
func (l lateRelease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		l.inProgress.wait(ctx)
	}
	return l.Interface.Update(ctx, record)
}
