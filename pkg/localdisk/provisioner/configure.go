// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/apis/provisioner"
)

// refreshTimeout is how long a new configuration waits for the node's labels.
const refreshTimeout = 10 * time.Second

// Configure gives the agent another configuration. It holds for everything that
// begins from now on; cleans that are under way end as they began. Volumes of classes
// that it does not have any more stay.
func (p *Provisioner) Configure(ctx context.Context, config *provisioner.Config) {
	p.mu.Lock()
	p.settings = newSettings(config)
	p.mu.Unlock()
	p.cleans.resize(config.MaxCleaning)
	p.cleans.retryNow()
	p.proofs.resize(config.MaxBlankProofs)
	p.Prober.SetTimeout(config.ProbeTimeout)
	soon, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := p.refreshNode(soon); err != nil {
		klog.FromContext(ctx).Error(err, "Volumes keep the labels of the former configuration")
	}
	poke(p.watchRequests)
	p.enqueueAll()
	poke(p.scanRequests)
}

// current is the configuration in force.
func (p *Provisioner) current() *settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

// poke asks for something that is done at most once at a time.
func poke(ask chan<- struct{}) {
	select {
	case ask <- struct{}{}:
	default:
	}
}
