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

// settleTime bounds how long a leader that is asked to end keeps its lease. It is more
// than the 5 seconds that the binder gives requests under way, and less than the renew
// deadline, after which the lease is not released but expires.
const settleTime = 7 * time.Second

// settler is a plugin whose bindings can be waited for.
type settler interface {
	Settle(ctx context.Context)
}

// bindings are what a scheduler's plugins have under way.
type bindings struct {
	mu      sync.Mutex
	plugins []settler
}

// of returns a registry whose plugins are waited for.
func (b *bindings) of(plugins frameworkruntime.Registry) frameworkruntime.Registry {
	noted := frameworkruntime.Registry{}
	for name, factory := range plugins {
		noted[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := factory(ctx, args, handle)
			if s, ok := plugin.(settler); ok && err == nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.plugins = append(b.plugins, s)
			}
			return plugin, err
		}
	}
	return noted
}

// settle returns when no binding is under way, or after settleTime.
func (b *bindings) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, plugin := range b.plugins {
		plugin.Settle(ctx)
	}
}

// lateRelease is a lease that a leader which is asked to end releases once its bindings
// have ended, what they take back included. Upstream releases it at once and exits: a
// claimRef on its way then arrives while the next leader chooses another volume for the
// same claim.
type lateRelease struct {
	resourcelock.Interface
	underWay *bindings
}

// Update writes the lease. A record without holder is a release: the scheduler's context
// has ended.
func (l lateRelease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		l.underWay.settle(ctx)
	}
	return l.Interface.Update(ctx, record)
}
