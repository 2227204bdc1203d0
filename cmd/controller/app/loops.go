// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	"stowage.dev/stowage/pkg/controller/claimbinder"
	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/controller/cleaningjobs"
	"stowage.dev/stowage/pkg/controller/heartbeats"
	"stowage.dev/stowage/pkg/controller/nodehosts"
	"stowage.dev/stowage/pkg/controller/nodeloss"
	"stowage.dev/stowage/pkg/controller/orphancleans"
	"stowage.dev/stowage/pkg/controller/pav/capacities"
	"stowage.dev/stowage/pkg/controller/pav/stagings"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes"
	"stowage.dev/stowage/pkg/controller/pvbinder"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/pav/pavclient"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// provisionerName is the name of the provisioners' ConfigMap and DaemonSet: manifests/provisioner.
const provisionerName = "stowage-provisioner"

// namedLoop is work that the leading replica does.
type namedLoop struct {
	name string
	runner
}

// runner works until its context ends. It returns after all its goroutines have.
type runner interface {
	Run(ctx context.Context) error
}

// disabled is a runner without work.
type disabled struct{}

func (disabled) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// pav are the controllers of PavVolumes, PavStagings and storage capacities.
type pav struct {
	*steps.Steps
	controllers []steps.Controller
}

func newPav(config steps.Config) (*pav, error) {
	shared, err := steps.New(config)
	if err != nil {
		return nil, err
	}
	of, err := volumes.New(shared)
	if err != nil {
		return nil, err
	}
	on, err := stagings.New(shared)
	if err != nil {
		return nil, err
	}
	capacity, err := capacities.New(shared)
	if err != nil {
		return nil, err
	}
	return &pav{shared, []steps.Controller{of, on, capacity}}, nil
}

// Run runs the controllers.
func (p *pav) Run(ctx context.Context) error { return p.Steps.Run(ctx, p.controllers...) }

// parts are the shared parts of the loops of a process. Constructors of loops add their handlers
// to the informers. The informers start after that, on standby replicas too, so that these take
// over with warm caches. A loop runs when all informers are synced and this replica leads.
type parts struct {
	settings *v1alpha1.ControllerConfiguration
	client   kubernetes.Interface
	// connection is the configuration of client, for clients of other APIs.
	connection *rest.Config
	informers  informers.SharedInformerFactory
	// reports reads and writes LocalDiskReports, reportInformer has those of all nodes; tombstones
	// and tombstoneInformer do so for LocalDiskTombstones.
	reports           *diskreports.Client
	reportInformer    cache.SharedIndexInformer
	tombstones        *diskreports.TombstoneClient
	tombstoneInformer cache.SharedIndexInformer
	events            events.EventRecorder
}

// makeLoops creates all loops. An error names the loop.
func makeLoops(p *parts) ([]namedLoop, error) {
	pavClients := sync.OnceValues(func() (*pavclient.Clients, error) { return pavclient.New(p.connection) })
	makers := []struct {
		name string
		make func() (runner, error)
	}{
		{"node-loss", func() (runner, error) { // releases the claims of lost nodes
			config := nodeloss.Config{
				Namespace: p.settings.Namespace, Settings: p.settings.NodeLoss, Client: p.client, Informers: p.informers,
				Reports: p.reports, ReportInformer: p.reportInformer, Tombstones: p.tombstones, TombstoneInformer: p.tombstoneInformer, Events: p.events,
			}
			if p.settings.PavVolumes.Enabled {
				clients, err := pavClients()
				if err != nil {
					return nil, err
				}
				config.PavVolumes = clients.Volumes
			}
			return nodeloss.New(config)
		}},
		{"node-hosts", func() (runner, error) { // writes the hostnames of nodes for the provisioners' policies
			return nodehosts.New(p.client, p.informers, p.settings.Namespace)
		}},
		{"cleaning-jobs", func() (runner, error) { // creates cleaning Jobs
			if !p.settings.CleaningJobs.Enabled {
				return disabled{}, nil
			}
			return cleaningjobs.New(cleaningjobs.Config{
				Client: p.client, Reports: p.reports, ReportInformer: p.reportInformer,
				Namespace: p.settings.Namespace, ConfigMap: provisionerName, DaemonSet: provisionerName, Image: p.settings.CleaningJobs.Image,
			})
		}},
		{"orphan-cleans", func() (runner, error) { // allows provisioners to clean disks whose volume is gone
			return orphancleans.New(orphancleans.Config{
				Reports: p.reports, ReportInformer: p.reportInformer, PerHour: int(*p.settings.OrphanCleans.PerHour),
			})
		}},
		{"pav", func() (runner, error) { // makes, deletes, stages and unstages the volumes of PavProvisioners
			if !p.settings.PavVolumes.Enabled {
				return disabled{}, nil
			}
			clients, err := pavClients()
			if err != nil {
				return nil, err
			}
			return newPav(steps.Config{
				Client: p.client, Clients: clients, Informers: p.informers, Events: p.events,
				Namespace: p.settings.PavVolumes.Namespace, ReporterImage: p.settings.PavVolumes.ReporterImage,
			})
		}},
		{"bind-now", func() (runner, error) { // binds claims without a pod
			settings := p.settings.ClaimBinder.BindNow
			if !settings.Enabled {
				return disabled{}, nil
			}
			config := claimbinder.Config{Client: p.client, Informers: p.informers, Events: p.events}
			for _, a := range settings.Annotations {
				config.Annotations = append(config.Annotations, rules.Annotation(a))
			}
			return claimbinder.New(config)
		}},
		{"pv-binder", func() (runner, error) { // binds claims instead of the PV controller
			if !p.settings.ClaimBinder.InPlace.Enabled {
				return disabled{}, nil
			}
			cache, err := volumecache.New(volumecache.Config{Informers: p.informers, ByClass: true})
			if err != nil {
				return nil, err
			}
			return pvbinder.New(pvbinder.Config{Client: p.client, Informers: p.informers, Cache: cache, Events: p.events})
		}},
		{"heartbeats", func() (runner, error) { // marks the reports of provisioners that do not renew their Lease
			return heartbeats.New(heartbeats.Config{Client: p.client, Informers: p.informers, Reports: p.reports, ReportInformer: p.reportInformer})
		}},
	}
	var loops []namedLoop
	for _, maker := range makers {
		made, err := maker.make()
		if err != nil {
			return nil, fmt.Errorf("make the loop %s: %w", maker.name, err)
		}
		loops = append(loops, namedLoop{maker.name, made})
	}
	return loops, nil
}
