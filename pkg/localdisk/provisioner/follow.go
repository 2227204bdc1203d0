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

	"stowage.dev/stowage/pkg/apis/provisioner"
	"stowage.dev/stowage/pkg/metrics"
)

// followAnyway is how often the configuration is read where it cannot be watched.
const reloadPeriod = time.Minute

// Follow takes over every new version of the configuration in a folder, until ctx ends.
// A version that is not valid is told of, and the last good one stays in force.
func (p *Provisioner) Follow(ctx context.Context, folder string) {
	logger := klog.FromContext(ctx)
	metrics.CountConfigAccepted(time.Now()) // the one that the agent begins with
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = watcher.Close() }()
		err = watcher.Add(folder)
	}
	if err != nil {
		logger.Error(fmt.Errorf("watch %s: %w", folder, err), "The configuration is not watched, only read from time to time", "period", reloadPeriod)
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
			logger.V(4).Info("Missed some changes of the configuration", "err", err)
		case _, open := <-watcher.Events:
			if !open {
				watcher.Events = nil
			}
		}
		timer.Stop()
		if !sleep(ctx, scanDelay) { // an editor writes more than once
			return
		}
	}
}

// reload reads the folder, and takes over what is new and valid.
func (p *Provisioner) reload(ctx context.Context, folder string) {
	config, err := provisioner.ParseFolder(folder)
	if err != nil {
		p.Rejected(err)
		metrics.CountConfigRefused()
		klog.FromContext(ctx).Error(err, "The configuration is not valid, the last good one stays in force", "folder", folder)
		return
	}
	p.Rejected(nil)
	if reflect.DeepEqual(config, p.current().Config) {
		return
	}
	for _, warning := range config.Warnings() {
		klog.FromContext(ctx).Info("The configuration says something to think about", "field", warning.Field, "message", warning.Message)
	}
	p.Configure(ctx, config)
	metrics.CountConfigAccepted(time.Now())
	klog.FromContext(ctx).V(2).Info("Took over a new configuration", "folder", folder)
}
