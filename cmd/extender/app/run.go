// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	apisextender "stowage.dev/stowage/pkg/apis/extender"
	"stowage.dev/stowage/pkg/extender"
	"stowage.dev/stowage/pkg/server"
)

// run serves until ctx ends, or until another replica leads.
func run(ctx context.Context, settings *apisextender.ExtenderConfiguration, connection *rest.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		cancel()
		return fmt.Errorf("make a client: %w", err)
	}
	informers := newInformers(client)
	defer informers.Shutdown()
	defer cancel()
	made, err := extender.New(ctx, extender.Config{Settings: settings, Client: client, Informers: informers})
	if err != nil {
		return err
	}
	leading := &atomic.Bool{}
	leading.Store(!settings.LeaderElection.LeaderElect)
	klog.FromContext(ctx).Info("Starting the extender", "version", stowageVersion(), "mode", settings.Mode, "address", settings.Serving.Address)

	informers.StartWithContext(ctx)
	defer made.Wait()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return server.ServeCalls(ctx, server.CallsConfig{
			Address: settings.Serving.Address, Handler: onlyLeader(leading, made.Handler()),
			CertFile: settings.Serving.CertFile, KeyFile: settings.Serving.KeyFile, ClientCAFile: settings.Serving.ClientCAFile,
			ClientNames: settings.Serving.ClientNames,
		})
	})
	if settings.HealthAddress != "" {
		group.Go(func() error {
			return server.Serve(ctx, server.Config{
				Address: settings.HealthAddress,
				Healthy: func() error { return nil }, // a process that answers is alive
				Ready:   func(string) error { return ready(leading, made) },
			})
		})
	}
	if settings.LeaderElection.LeaderElect {
		group.Go(func() error { return lead(ctx, settings.LeaderElection, connection, leading) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// errStandby says that another replica answers.
var errStandby = errors.New("standing by: another replica leads")

func ready(leading *atomic.Bool, made *extender.Extender) error {
	if err := made.Ready(); err != nil {
		return err
	}
	if !leading.Load() {
		return errStandby
	}
	return nil
}

// errLeaseLost ends the process: connections of schedulers end with it, and the
// next ones go to the replica that leads now.
var errLeaseLost = errors.New("the lease was lost to another replica")

// lead waits for the lease, holds it, and returns when it is lost.
func lead(ctx context.Context, e apisextender.LeaderElection, connection *rest.Config, leading *atomic.Bool) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find out the host's name: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, e.ResourceNamespace, e.ResourceName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, connection, e.RenewDeadline.Duration)
	if err != nil {
		return fmt.Errorf("make the lease's lock: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: componentName, ReleaseOnCancel: true,
		LeaseDuration: e.LeaseDuration.Duration, RenewDeadline: e.RenewDeadline.Duration, RetryPeriod: e.RetryPeriod.Duration,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leading.Store(true) },
			OnStoppedLeading: func() { leading.Store(false) },
		},
	})
	if err != nil {
		return fmt.Errorf("take part in leader election: %w", err)
	}
	elector.Run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return errLeaseLost
}
