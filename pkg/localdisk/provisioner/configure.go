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
func (a *Agent) Configure(ctx context.Context, config *provisioner.Config) {
	a.mu.Lock()
	a.settings = newSettings(config)
	a.mu.Unlock()
	a.cleans.resize(config.MaxCleaning)
	a.cleans.hasten()
	a.proofs.resize(config.MaxBlankProofs)
	a.Prober.SetTimeout(config.ProbeTimeout)
	soon, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := a.refreshNode(soon); err != nil {
		klog.FromContext(ctx).Error(err, "Volumes keep the labels of the former configuration")
	}
	poke(a.rewatch)
	a.everything()
	poke(a.look)
}

// current is the configuration in force.
func (a *Agent) current() *settings {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settings
}

// poke asks for something that is done at most once at a time.
func poke(ask chan<- struct{}) {
	select {
	case ask <- struct{}{}:
	default:
	}
}
