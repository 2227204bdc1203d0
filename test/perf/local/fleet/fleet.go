// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet measures what the provisioners of many nodes cost the API server: an etcd, a
// kube-apiserver, a volume for each disk, and the watches that the provisioners would have,
// each on its own connection. There are no nodes and no provisioners.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// Config configures Measure.
type Config struct {
	Binaries cluster.Binaries
	Rounds   int
	// Progress receives progress messages.
	Progress func(format string, args ...any)
}

type setup struct {
	Config
	cluster *cluster.Cluster
	client  kubernetes.Interface
	names   []string // of volumes
	version int
}

// Measure runs all arms in turn, round by round.
func Measure(ctx context.Context, config Config) (measured figures.Set, err error) {
	config.Progress("control plane")
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries: config.Binaries, NoKwok: true,
		ControllerManager: cluster.ControllerManagerConfig{Disabled: true},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	s := &setup{Config: config, cluster: c, client: c.Client()}
	if err := s.makeVolumes(ctx); err != nil {
		return nil, err
	}
	return parts.Rounds(config.Rounds, []string{none, filtered, all}, func(_ int, arm string) (*benchfmt.Result, error) {
		return s.run(ctx, arm)
	})
}

func nodeName(n int) string { return fmt.Sprintf("node-%d", n) }

// makeVolumes makes volumes as provisioners do.
func (s *setup) makeVolumes(ctx context.Context) error {
	s.Progress("%d volumes", nodes*volumesPerNode)
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
func (s *setup) update(ctx context.Context) error {
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

// The arms: who watches.
const (
	none     = "none"
	filtered = "filtered"
	all      = "all"
)

// expected is how many events of an arm's watchers the updates make.
var expected = map[string]int64{filtered: updates, all: updates * watchingAll}

// selectors are those of an arm's watchers.
func selectors(arm string) []string {
	switch arm {
	case filtered:
		own := make([]string, nodes)
		for n := range own {
			own[n] = localpv.Selector(nodeName(n))
		}
		return own
	case all:
		return make([]string, watchingAll)
	}
	return nil
}

// phase is the API server's work in some time.
type phase struct {
	seconds, cpu  float64
	bytes, events int64 // sent to the watchers; bytes are encrypted
}

// values are the figures of a phase.
func (p phase) values(name, events string) []figures.Value {
	return []figures.Value{
		{Value: p.seconds, Unit: name + "-sec"}, {Value: p.cpu, Unit: name + "-cpu-sec"},
		{Value: float64(p.bytes), Unit: name + "-sent-B"}, {Value: float64(p.events), Unit: name + "-" + events},
	}
}

// run measures one arm on a new API server, whose cache is warm.
func (s *setup) run(ctx context.Context, arm string) (*benchfmt.Result, error) {
	if err := s.cluster.APIServer().Restart(ctx); err != nil {
		return nil, err
	}
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	w := &watchers{config: s.cluster.RESTConfig()}
	defer w.stop()
	connect, err := s.phase(w, func() error { return w.start(ctx, selectors(arm)) })
	if err != nil {
		return nil, err
	}
	used, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return nil, err
	}
	update, err := s.phase(w, func() error {
		want := w.events.Load() + expected[arm]
		if err := s.update(ctx); err != nil {
			return err
		}
		return w.wait(ctx, "the events of all updates", func() bool { return w.events.Load() >= want })
	})
	if err != nil {
		return nil, err
	}
	if w.count == 0 {
		connect.seconds = math.NaN() // nothing connects
	}
	values := []figures.Value{{Value: float64(w.count), Unit: "watchers"}, {Value: float64(used.RSS), Unit: "rss-B"}}
	return figures.Line("Watch/watchers="+arm, 1, slices.Concat(values, connect.values("connect", "volumes"), update.values("update", "events"))...), nil
}

// warm has one watcher see everything, and go.
func (s *setup) warm(ctx context.Context) error {
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

// phase measures the work of the API server during do.
func (s *setup) phase(w *watchers, do func() error) (p phase, err error) {
	before, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return p, err
	}
	bytes, events, begin := w.bytes.Load(), w.events.Load(), time.Now()
	if err := do(); err != nil {
		return p, err
	}
	p.seconds = time.Since(begin).Seconds()
	after, err := source.Used(s.cluster.APIServer().Process())
	if err != nil {
		return p, err
	}
	p.cpu, p.bytes, p.events = after.CPU-before.CPU, w.bytes.Load()-bytes, w.events.Load()-events
	return p, nil
}
