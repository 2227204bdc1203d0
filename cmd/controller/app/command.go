// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-controller command: configuration and flags,
// clients and informers, leader election, the loops that do the work.
package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/apis/component"
	"stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pvbinder"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/recorder"
	"stowage.dev/stowage/pkg/server"
	"stowage.dev/stowage/pkg/server/command"
	"stowage.dev/stowage/pkg/server/leader"
)

const (
	componentName = "stowage-controller"

	longDescription = `stowage-controller does the cluster-wide work: it releases claims whose volumes are lost
with their nodes, where that is enabled, writes the hostnames of nodes for the admission
policies of the provisioners, marks the reports of provisioners that send no heartbeats,
limits the cleaning of disks whose volume is gone, and creates cleaning Jobs, where that is
enabled.

See docs/controller.md. Its configuration is in docs/controller-configuration.md.`
)

// NewCommand returns the stowage-controller command. It works until the command's
// context is done.
func NewCommand() *cobra.Command {
	return command.New(command.Config[*v1alpha1.ControllerConfiguration]{
		Name: componentName, Short: "Release the claims of lost nodes", Long: longDescription,
		File:    "file with a ControllerConfiguration (controller.config.stowage.dev/v1alpha1); without one the defaults hold",
		Default: v1alpha1.Default,
		Decode:  v1alpha1.Decode,
		Connection: func(settings *v1alpha1.ControllerConfiguration) component.ClientConnection {
			return settings.ClientConnection
		},
		Summary: func(settings *v1alpha1.ControllerConfiguration) string {
			return fmt.Sprintf("node loss %s after %s", settings.NodeLoss.Policy, settings.NodeLoss.Delay.Duration)
		},
		Run: run,
	})
}

// run works until ctx ends, or until another replica leads.
func run(ctx context.Context, settings *v1alpha1.ControllerConfiguration, connection *rest.Config, secure *server.Secure) error {
	p, err := newParts(settings, connection)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme() // of the objects of events
	if err := errors.Join(clientscheme.AddToScheme(scheme), stowage.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("make a scheme: %w", err)
	}
	events, err := recorder.Start(ctx, p.client.EventsV1(), scheme, componentName)
	if err != nil {
		return err
	}
	defer events.Shutdown()
	p.events = events
	loops, err := makeLoops(p)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Starting the controller", "version", command.Version())
	synced := &atomic.Bool{}
	group, ctx := errgroup.WithContext(ctx)
	defer p.informers.Shutdown()
	p.informers.Start(ctx.Done())
	group.Go(func() error { p.reportInformer.RunWithContext(ctx); return nil })
	group.Go(func() error { p.tombstoneInformer.RunWithContext(ctx); return nil })
	if *settings.HealthAddress != "" {
		group.Go(func() error {
			return server.Serve(ctx, server.Config{
				Address: *settings.HealthAddress,
				Secure:  secure,
				Ready: func(string) error { // a standby replica that can take over is ready, too
					if !synced.Load() {
						return errNotSynced
					}
					return nil
				},
			})
		})
	}
	group.Go(func() error {
		if err := p.sync(ctx); err != nil {
			return err
		}
		synced.Store(true)
		return lead(ctx, p, loops)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// newParts creates the parts, which needs no context.
func newParts(settings *v1alpha1.ControllerConfiguration, connection *rest.Config) (*parts, error) {
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	p := &parts{settings: settings, client: client, connection: connection}
	p.informers = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trimFor(settings)))
	if p.reports, err = diskreports.NewClient(connection); err != nil {
		return nil, err
	}
	if p.reportInformer, err = diskreports.NewInformer(p.reports); err != nil {
		return nil, err
	}
	if p.tombstones, err = diskreports.NewTombstoneClient(connection); err != nil {
		return nil, err
	}
	if p.tombstoneInformer, err = diskreports.NewTombstoneInformer(p.tombstones); err != nil {
		return nil, err
	}
	return p, nil
}

// sync waits for the caches.
func (p *parts) sync(ctx context.Context) error {
	for kind, synced := range p.informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("list %s: %w", kind, context.Cause(ctx))
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), p.reportInformer.HasSynced, p.tombstoneInformer.HasSynced) {
		return fmt.Errorf("list LocalDiskReports and LocalDiskTombstones: %w", context.Cause(ctx))
	}
	return nil
}

// errNotSynced: this replica is not ready to take over.
var errNotSynced = errors.New("the caches are not synced yet; the CRDs of LocalDiskReport and LocalDiskTombstone (manifests/crd) must be installed")

// lead runs the loops once this replica leads, until one of them fails.
func lead(ctx context.Context, p *parts, loops []namedLoop) error {
	work := func(ctx context.Context) error {
		metrics.SetControllerLeading(true)
		defer metrics.SetControllerLeading(false)
		return runAll(ctx, loops)
	}
	if !*p.settings.LeaderElection.LeaderElect {
		return work(ctx)
	}
	return leader.Run(ctx, leader.Config{Name: componentName, Election: p.settings.LeaderElection, Connection: p.connection, Work: work})
}

// runAll runs loops until the first fails, or ctx ends.
func runAll(ctx context.Context, loops []namedLoop) error {
	klog.FromContext(ctx).Info("This replica leads")
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range loops {
		group.Go(func() error {
			if err := l.Run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("run the loop %s: %w", l.name, err)
			}
			<-ctx.Done()
			return nil
		})
	}
	return group.Wait()
}

// trimFor returns trim, which keeps what pv-binder reads of managed fields if that loop is enabled.
func trimFor(settings *v1alpha1.ControllerConfiguration) cache.TransformFunc {
	if !settings.ClaimBinder.InPlace.Enabled {
		return trim
	}
	return func(object any) (any, error) {
		if volume, ok := object.(*corev1.PersistentVolume); ok {
			pvbinder.KeepPhaseWriters(volume)
			return volume, nil
		}
		return trim(object)
	}
}

// trim removes what no loop reads: managed fields, and a pod's containers, which are most of it.
func trim(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec.Containers, pod.Spec.InitContainers, pod.Spec.EphemeralContainers = nil, nil, nil
	}
	return loop.WithoutManagedFields(object)
}
