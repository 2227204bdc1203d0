// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/provisioner/scan"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	// reloadPeriod is the time between two reads of the configuration without an event.
	reloadPeriod = time.Minute
	// refreshTimeout is how long a new configuration waits for the node's labels.
	refreshTimeout = 10 * time.Second
)

// Follow applies every new version of the configuration in a folder, until ctx ends. A
// version that is not valid is reported, and the last good one stays in force.
func (p *Provisioner) Follow(ctx context.Context, folder string) {
	logger := klog.FromContext(ctx)
	metrics.CountConfigAccepted(time.Now()) // the one that New was called with
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = watcher.Close() }()
		err = watcher.Add(folder)
	}
	if err != nil {
		logger.Error(fmt.Errorf("watch %s: %w", folder, err), "Failed to watch the configuration; reading it periodically", "period", reloadPeriod)
		watcher = &fsnotify.Watcher{}
	}
	for {
		p.reload(ctx, folder)
		timer := time.NewTimer(reloadPeriod)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case err := <-watcher.Errors:
			logger.V(4).Info("Missed events of the configuration", "err", err)
		case _, open := <-watcher.Events:
			if !open {
				watcher.Events = nil
			}
		}
		timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-time.After(scan.Delay): // one change causes several events
		}
	}
}

// reload reads the folder, and applies a configuration that is new and valid.
func (p *Provisioner) reload(ctx context.Context, folder string) {
	config, err := provisioner.DecodeFolder(folder)
	if err != nil {
		p.status.ConfigRejected(err)
		metrics.CountConfigRefused()
		klog.FromContext(ctx).Error(err, "Configuration not valid; keeping the last good one", "folder", folder)
		return
	}
	p.status.ConfigRejected(nil)
	if reflect.DeepEqual(config, p.current().ProvisionerConfiguration) {
		return
	}
	for _, warning := range config.Warnings() {
		klog.FromContext(ctx).Info("Configuration warning", "warning", warning)
	}
	p.Configure(ctx, config)
	metrics.CountConfigAccepted(time.Now())
	klog.FromContext(ctx).V(2).Info("Applied a new configuration", "folder", folder)
}

// Configure applies another configuration to everything that starts from now on. Running
// cleans keep the former one. Volumes of classes that it does not have stay.
func (p *Provisioner) Configure(ctx context.Context, config *provisioner.ProvisionerConfiguration) {
	p.mu.Lock()
	p.settings = newSettings(config)
	p.mu.Unlock()
	p.cleans.Resize(int(*config.MaxCleaning))
	p.cleans.RetryNow()
	p.proofs.Resize(int(*config.MaxBlankProofs))
	p.Prober.SetTimeout(config.ProbeTimeout.Duration)
	soon, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := p.refreshNode(soon); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to get the labels of the Node; volumes keep those of the former configuration")
	}
	p.enqueue("")
	p.scanner.Reconfigured()
}
