// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/perf/benchfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
	"stowage.dev/stowage/test/provisioners"
)

// The objects in the cluster.
const (
	nodes          = 1000
	volumesPerNode = 10
	updates        = 2000
	// updatesPerSecond leave the API server time for a thousand watchers: it drops those
	// that cannot follow, which would reconnect and hide their cost.
	updatesPerSecond = 100
	// watchingAll is how many watch all volumes: more would take longer than it is worth,
	// since each costs the same.
	watchingAll = 50
)

// fleet is what the provisioners of many nodes work with: an etcd, a kube-apiserver, a volume for
// each disk, and the watches that the provisioners would have, each on its own connection. There are
// no nodes and no provisioners.
type fleet struct {
	cluster *cluster.Cluster
	client  kubernetes.Interface
	names   []string // of volumes
	version int
}

// watching measures what the API server needs for all arms.
func (b *bench) watching(ctx context.Context, r *parts.Run) (measured figures.Set, err error) {
	parts.Progress("control plane")
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries: b.binaries, NoKwok: true,
		ControllerManager: cluster.ControllerManagerConfig{Disabled: true},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	s := &fleet{cluster: c, client: c.Client()}
	if err := s.makeVolumes(ctx); err != nil {
		return nil, err
	}
	return parts.Rounds(r.Number("rounds"), arms(), func(_ int, arm watching) (*benchfmt.Result, error) {
		return s.run(ctx, arm)
	})
}

func nodeName(n int) string { return fmt.Sprintf("node-%d", n) }

// makeVolumes makes volumes as provisioners do.
func (s *fleet) makeVolumes(ctx context.Context) error {
	parts.Progress("%d volumes", nodes*volumesPerNode)
	s.names = make([]string, nodes*volumesPerNode)
	return await.Each(ctx, len(s.names), func(ctx context.Context, i int) error {
		node, name := nodeName(i%nodes), fmt.Sprintf("disk-%d", i/nodes)
		request := provisioners.Request(node, "fast-disks", name, fmt.Sprintf("fs:%032x:/", i))
		request.Generation = time.Now().Unix()
		volume, problem := localpv.Volume(request)
		if problem != nil {
			return problem
		}
		s.names[i] = volume.Name
		_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		return err
	})
}

// update changes as many volumes as there are updates, spread evenly over the nodes.
func (s *fleet) update(ctx context.Context) error {
	s.version++
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/version":"%d"}}}`, s.version)
	pace := flowcontrol.NewTokenBucketRateLimiter(updatesPerSecond, 1)
	defer pace.Stop()
	return await.Each(ctx, updates, func(ctx context.Context, i int) error {
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		_, err := s.client.CoreV1().PersistentVolumes().Patch(ctx, s.names[i], types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// watching is an arm: who watches.
type watching struct {
	name      string
	selectors []string // of each watcher
	events    int64    // that the updates make for all watchers
}

func (w watching) String() string { return w.name }

// arms are no watches, those of all nodes' own volumes, and some of all volumes.
func arms() []watching {
	own := make([]string, nodes)
	for n := range own {
		own[n] = localpv.Selector(nodeName(n))
	}
	return []watching{{"none", nil, 0}, {"filtered", own, updates}, {"all", make([]string, watchingAll), updates * watchingAll}}
}

// run measures one arm on a new API server, whose cache is warm.
func (s *fleet) run(ctx context.Context, arm watching) (*benchfmt.Result, error) {
	if err := s.cluster.APIServer().Restart(ctx); err != nil {
		return nil, err
	}
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	w := &watchers{config: s.cluster.RESTConfig()}
	defer w.stop()
	values, err := s.phase(w, "connect", "volumes", func() error { return w.start(ctx, arm.selectors) })
	if err != nil {
		return nil, err
	}
	used, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return nil, err
	}
	if w.count == 0 {
		values = values[1:] // nothing connects
	}
	update, err := s.phase(w, "update", "events", func() error {
		want := w.events.Load() + arm.events
		if err := s.update(ctx); err != nil {
			return err
		}
		return w.wait(ctx, "the events of all updates", func() bool { return w.events.Load() >= want })
	})
	return figures.Line("Watch/watchers="+arm.name, 1, slices.Concat(
		[]figures.Value{{Value: float64(w.count), Unit: "watchers"}, {Value: float64(used.RSS), Unit: "rss-B"}}, values, update,
	)...), err
}

// warm has one watcher see everything, and go.
func (s *fleet) warm(ctx context.Context) error {
	w := &watchers{config: s.cluster.RESTConfig()}
	defer w.stop()
	if err := w.start(ctx, []string{""}); err != nil {
		return err
	}
	if got := w.events.Load(); got != int64(len(s.names)) {
		return fmt.Errorf("a watcher saw %d volumes, not %d", got, len(s.names))
	}
	return nil
}

// phase measures the work of the API server during do: what it sent to the watchers is in
// encrypted bytes, and in events.
func (s *fleet) phase(w *watchers, name, events string, do func() error) ([]figures.Value, error) {
	sent, seen := w.bytes.Load(), w.events.Load()
	used, seconds, err := source.During(s.cluster.APIServer().Process(), do)
	return []figures.Value{
		{Value: seconds, Unit: name + "-sec"}, {Value: used.CPU, Unit: name + "-cpu-sec"},
		{Value: float64(w.bytes.Load() - sent), Unit: name + "-sent-B"}, {Value: float64(w.events.Load() - seen), Unit: name + "-" + events},
	}, err
}
