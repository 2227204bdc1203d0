// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	controller "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	"stowage.dev/stowage/pkg/controller/nodeloss"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
)

// killedControllers are consecutive controllers of this process. Each is killed after the API
// server has performed its first write, before it receives the answer.
type killedControllers struct {
	site    *site
	watch   cache.TransformFunc // of all their informers
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	writes []string
	failed error
}

func startKilled(s *site) *killedControllers {
	ctx, cancel := context.WithCancel(s.Context())
	m := &killedControllers{site: s, watch: s.WatchWrites(), cancel: cancel}
	m.running.Go(func() {
		for ctx.Err() == nil {
			if err := m.live(ctx); err != nil && ctx.Err() == nil {
				m.mu.Lock()
				m.failed = errors.Join(m.failed, err)
				m.mu.Unlock()
				return
			}
		}
	})
	return m
}

// stop ends them, and returns the writes after which they were killed.
func (m *killedControllers) stop() []string {
	m.cancel()
	m.running.Wait()
	if m.failed != nil {
		m.site.T.Fatal(m.failed)
	}
	return m.writes
}

// live runs one controller until it is killed.
func (m *killedControllers) live(ctx context.Context) error {
	ctx, die := context.WithCancel(ctx)
	defer die()
	config, err := m.site.Cluster.RESTConfigFor(account, "system:serviceaccounts", "system:serviceaccounts:stowage-system")
	if err != nil {
		return err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &killer{ctx: ctx, die: die, m: m, next: next} })
	made, own, factory, err := assemble(config, m.watch)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer func() { die(); running.Wait(); factory.Shutdown() }()
	factory.Start(ctx.Done())
	for _, informer := range own {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	factory.WaitForCacheSync(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), own[0].HasSynced, own[1].HasSynced)
	return made.Run(ctx) // which ends at once if the life has
}

// assemble makes a controller, and its informers of reports and tombstones.
func assemble(config *rest.Config, watch cache.TransformFunc) (*nodeloss.Controller, []cache.SharedIndexInformer, informers.SharedInformerFactory, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, nil, err
	}
	reports, err := diskreports.NewClient(config)
	if err != nil {
		return nil, nil, nil, err
	}
	informer, err := diskreports.NewInformer(reports)
	if err != nil {
		return nil, nil, nil, err
	}
	tombstones, err := diskreports.NewTombstoneClient(config)
	if err != nil {
		return nil, nil, nil, err
	}
	tombstoneInformer, err := diskreports.NewTombstoneInformer(tombstones)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := errors.Join(informer.SetTransform(watch), tombstoneInformer.SetTransform(watch)); err != nil {
		return nil, nil, nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(watch))
	made, err := nodeloss.New(nodeloss.Config{
		Namespace: "stowage-system",
		Settings: controller.NodeLoss{
			Policy: controller.NodeLossKeep, Delay: metav1.Duration{Duration: time.Second},
			OutOfService: controller.OutOfServiceIgnore, ReleasesPerMinute: new(int32(100)),
		},
		Client: client, Informers: factory, Reports: reports, ReportInformer: informer, Tombstones: tombstones, TombstoneInformer: tombstoneInformer,
		Events: events.NewFakeRecorder(1000),
	})
	return made, []cache.SharedIndexInformer{informer, tombstoneInformer}, factory, err
}

// killer kills a controller after its first write.
type killer struct {
	ctx  context.Context //nolint:containedctx // the life of the controller
	die  func()
	m    *killedControllers
	next http.RoundTripper

	mu   sync.Mutex
	dead bool
}

var errDead = errors.New("this controller was killed")

// RoundTrip sends the requests of a running controller.
func (k *killer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return k.next.RoundTrip(request)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead || k.ctx.Err() != nil {
		return nil, errDead
	}
	// A request that was sent is executed, and must be counted, though the test may end meanwhile.
	response, err := k.next.RoundTrip(request.WithContext(context.WithoutCancel(request.Context())))
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		return response, err
	}
	k.dead = true
	k.m.mu.Lock()
	k.m.writes = append(k.m.writes, request.Method+" "+resourceOf(request.URL.Path))
	k.m.mu.Unlock()
	k.die()
	return nil, errors.Join(errDead, response.Body.Close())
}

// resourceOf is the resource in the path of a request.
func resourceOf(path string) string {
	for _, resource := range []string{"persistentvolumeclaims", "persistentvolumes", "pods", "localdisktombstones"} {
		if strings.Contains(path, "/"+resource) {
			return resource
		}
	}
	return path
}
