// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader has leader election. It is apart from package server, because it needs the
// clients of all kinds of Kubernetes, which take memory on every node.
package leader

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // its metrics

	"stowage.dev/stowage/pkg/apis/component"
)

// Config configures leader election.
type Config struct {
	// Name is that of the component, for metrics.
	Name string
	// Election is valid and defaulted.
	Election   component.LeaderElection
	Connection *rest.Config
	// Work runs while this replica leads. Its context ends with the lease or with Run's
	// context; the lease is released after Work has returned.
	Work func(ctx context.Context) error
}

// ErrLeaseLost means that another replica may lead. The process must end.
var ErrLeaseLost = errors.New("the lease was lost to another replica")

// Run waits for the lease and runs Work. It returns the error of Work, ErrLeaseLost if the
// lease is lost, or nil when ctx ends.
func Run(ctx context.Context, c Config) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("get the host name: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, c.Election.ResourceNamespace, c.Election.ResourceName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, c.Connection, c.Election.RenewDeadline.Duration)
	if err != nil {
		return fmt.Errorf("make the lease's lock: %w", err)
	}
	return run(ctx, c, lock)
}

// run is Run with a lock.
func run(ctx context.Context, c Config, lock resourcelock.Interface) error {
	leading, gone := make(chan struct{}), make(chan struct{})
	elector, err := c.elector(lock, leading)
	if err != nil {
		return err
	}
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { defer close(gone); elector.Run(holding); stop(ErrLeaseLost) }()
	defer func() { release(); <-gone }()
	select {
	case <-leading:
	case <-ctx.Done():
		return nil
	}
	err = c.Work(working)
	switch {
	case errors.Is(context.Cause(working), ErrLeaseLost):
		return ErrLeaseLost
	case ctx.Err() != nil:
		return nil
	default:
		return err
	}
}

// elector closes leading when it holds the lease.
func (c *Config) elector(lock resourcelock.Interface, leading chan<- struct{}) (*leaderelection.LeaderElector, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: c.Name, ReleaseOnCancel: true,
		LeaseDuration: c.Election.LeaseDuration.Duration, RenewDeadline: c.Election.RenewDeadline.Duration, RetryPeriod: c.Election.RetryPeriod.Duration,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("take part in leader election: %w", err)
	}
	return elector, nil
}
