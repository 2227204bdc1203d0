// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	apisextender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/scheduling/extender"
	"stowage.dev/stowage/pkg/server"
	"stowage.dev/stowage/pkg/server/command"
)

// run serves until ctx ends, or until another replica leads.
func run(ctx context.Context, settings *apisextender.ExtenderConfiguration, connection *rest.Config, metricsTLS *server.SecureFlags) error {
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	r := newReplica(settings, client)
	if r.secure, err = metricsTLS.Secure(connection); err != nil {
		return err
	}
	if e := settings.LeaderElection; *e.LeaderElect {
		r.lead = func(ctx context.Context, work func(context.Context) error) error {
			return server.Lead(ctx, server.LeadConfig{
				Name: componentName, Namespace: e.ResourceNamespace, Lease: e.ResourceName, Connection: connection,
				LeaseDuration: e.LeaseDuration.Duration, RenewDeadline: e.RenewDeadline.Duration, RetryPeriod: e.RetryPeriod.Duration,
				Work: work,
			})
		}
	}
	return r.serve(ctx)
}

// replica is one of those that answer, or stand by.
type replica struct {
	settings *apisextender.ExtenderConfiguration
	client   kubernetes.Interface
	// lead works while no other replica does; nil: all replicas answer.
	lead func(ctx context.Context, work func(context.Context) error) error
	// secure is how probes and metrics are served over TLS; nil: in plain HTTP.
	secure *server.Secure
	// listener is where calls come from; nil: from the settings' address.
	listener net.Listener

	made    *extender.Extender
	leading atomic.Bool
	served  chan struct{} // closed when no call is answered any more
}

func newReplica(settings *apisextender.ExtenderConfiguration, client kubernetes.Interface) *replica {
	return &replica{settings: settings, client: client, served: make(chan struct{})}
}

func (r *replica) serve(ctx context.Context) (err error) {
	// Calls and binds that are under way when ctx ends come to their end, and need the
	// informers for it.
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	informers := newInformers(r.client)
	defer informers.Shutdown()
	defer end()
	if r.made, err = extender.New(living, extender.Config{Settings: r.settings, Client: r.client, Informers: informers}); err != nil {
		return err
	}
	r.leading.Store(r.lead == nil)
	klog.FromContext(ctx).Info("Starting the extender", "version", command.Version(), "mode", r.settings.Mode, "address", r.settings.Serving.Address)

	informers.StartWithContext(living)
	defer r.made.Wait()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(r.served)
		serving := r.settings.Serving
		return server.ServeCalls(ctx, server.CallsConfig{
			Address: serving.Address, Listener: r.listener, Handler: onlyLeader(&r.leading, r.made.Handler()),
			CertFile: serving.CertFile, KeyFile: serving.KeyFile, ClientCAFile: serving.ClientCAFile,
			ClientNames: serving.ClientNames,
		})
	})
	if *r.settings.HealthAddress != "" {
		group.Go(func() error {
			return server.Serve(ctx, server.Config{
				Address: *r.settings.HealthAddress,
				Healthy: func() error { return nil }, // a process that answers is alive
				Ready:   func(string) error { return ready(&r.leading, r.made) },
				Secure:  r.secure,
			})
		})
	}
	if r.lead != nil {
		group.Go(func() error { return r.lead(ctx, r.work) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// work answers until ctx ends, and returns when no bind is under way any more: the next
// replica that leads knows nothing of what they have reserved. If the lease is lost, it
// may be another's already. That ends the process: connections of schedulers end with it,
// and the next ones go to the replica that leads now.
func (r *replica) work(ctx context.Context) error {
	r.leading.Store(true)
	<-ctx.Done()
	r.leading.Store(false)
	if errors.Is(context.Cause(ctx), server.ErrLeaseLost) {
		return nil
	}
	<-r.served
	r.made.Wait()
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
