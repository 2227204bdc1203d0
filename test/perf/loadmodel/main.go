// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Loadmodel measures the VolumeTopology plugin on clusters of up to 65,000 nodes, without
// an API server:
//
//	go run ./test/perf/loadmodel -only 1000,4000 -pods 10000           some sizes, printed only
//	go run ./test/perf/loadmodel -out docs/benchmarks/plugin.txt       all, stored
//
// "make bench-plugin" runs it.
//
// It simulates a scheduler with the plugin: a cluster of any size in the stores of informers, pods
// that are created, placed and deleted, and a stream of other events. It measures
// the cost of the plugin's calls and the memory of its cache, at sizes
// that no test cluster reaches.
//
// Real are the plugin with its packages (cache, binder), the framework's
// NodeInfo and CycleState, the informers' stores, and kube-scheduler's rules
// for the nodes to visit (how many feasible ones are enough, where the next
// pod's search begins, what PreFilter's narrowing means). Modelled are the
// PV controller, which sets the phases of bound volumes, and the API server: it keeps each
// object in the informer's store and accepts a write only on the version that was read; watch
// events reach the handlers after PreBind, one after another. All calls are made on one thread, whose CPU time is measured:
// what 16 goroutines of kube-scheduler would do in parallel is sequential.
//
// Each run begins in its steady state: a share of all volumes is bound,
// and whenever a pod was placed, others end until that share is reached again. So
// all sizes have the same mix of answers, and their figures are comparable.
package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/perf/benchfmt"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/volumetopology"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/loadmodel/idle"
	"stowage.dev/stowage/test/perf/parts"
)

func main() {
	debug.SetGCPercent(50) // 65,000 nodes then take 5 GiB instead of 7
	b := parts.Benchmark{
		Name: "bench-plugin", Only: "ONLY",
		Numbers: []parts.Number{{Name: "pods", Usage: "how many pods to place at each size", Default: 100_000}},
	}
	for _, nodes := range []int{1000, 4000, 16000, 65000} {
		mix := Default(nodes, 0)
		b.Parts = append(b.Parts, parts.Part{
			Name: strconv.Itoa(nodes), Prefixes: []string{Name(nodes)},
			Config: []benchfmt.Config{share("occupied", mix.Occupied), share("four-claims", mix.FourClaims), share("returning", mix.Returning)},
			Measure: func(ctx context.Context, r *parts.Run) (figures.Set, error) {
				line, err := Run(ctx, Default(nodes, r.Number("pods")))
				return figures.Set{line}, err
			},
		})
	}
	b.Main()
}

func share(key string, v float64) benchfmt.Config {
	return figures.Key(key, strconv.FormatFloat(v, 'g', -1, 64))
}

// Config configures the simulation.
type Config struct {
	// Nodes is how large the cluster is, VolumesPerNode how many local volumes
	// each node has: of 10Gi, 20Gi and so on, each up to 1Gi larger.
	Nodes, VolumesPerNode int
	// Pods is how many are placed while measuring.
	Pods int
	// Occupied is the share of volumes that are bound, 0 to 1.
	Occupied float64
	// FourClaims is the share of pods with four claims; the others have one.
	FourClaims float64
	// Returning is the share of pods that use the bound claims of a pod that
	// ended just before, as those of a StatefulSet do.
	Returning float64
}

// seed makes two runs alike.
const seed = 1

// Default is the workload whose figures are published.
func Default(nodes, pods int) Config {
	return Config{
		Nodes: nodes, VolumesPerNode: 10, Pods: pods,
		Occupied: 0.5, FourClaims: 0.1, Returning: 0.05,
	}
}

func (c *Config) validate() error {
	switch {
	case c.Nodes < 10:
		return fmt.Errorf("%d nodes are too few for pods with four claims to find a place: at least 10", c.Nodes)
	case c.VolumesPerNode < 4:
		return fmt.Errorf("%d volumes per node are less than the claims of one pod: at least 4", c.VolumesPerNode)
	case c.Pods < 10:
		return fmt.Errorf("%d pods are too few to measure anything: at least 10", c.Pods)
	case c.Occupied <= 0 || c.Occupied > 0.7:
		return fmt.Errorf("occupied share %v: must be more than 0 and at most 0.7, so that every pod finds a place", c.Occupied)
	case c.FourClaims < 0 || c.Returning < 0 || c.FourClaims+c.Returning > 1:
		return errors.New("shares of pods must lie between 0 and 1 together")
	}
	return nil
}

// probes is how many pods of a run, and at most every fifth, have each of their
// calls measured on its own.
const probes = 200

type model struct {
	*cluster
	scheduler
	client *fake.Clientset
	events tally
	// measured are the figures. Times are CPU time of the thread that calls, the mean per call,
	// unless they say otherwise; p99 is wall time. Bytes are of heap.
	measured []figures.Value
}

// measure adds a figure.
func (m *model) measure(value float64, unit string) {
	m.measured = append(m.measured, figures.Value{Value: value, Unit: unit})
}

// Name is the name of the result of a size.
func Name(nodes int) string { return fmt.Sprintf("Plugin/nodes=%d", nodes) }

// Run simulates one size of cluster and returns its figures. An error means
// that a pod found no node, that a volume was bound twice, or that the
// final state is inconsistent; no figures are valid then.
func Run(ctx context.Context, cfg Config) (*benchfmt.Result, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the plugin drops its cache
	m := newModel(cfg)
	m.fill()
	if err := m.build(ctx); err != nil {
		return nil, fmt.Errorf("build the plugin's cache: %w", err)
	}
	if err := m.simulate(ctx); err != nil {
		return nil, err
	}
	parts.Progress("%d nodes: checking the final state", m.Nodes)
	if err := m.verify(); err != nil {
		return nil, fmt.Errorf("after %d pods: %w", m.Pods, err)
	}
	m.report()
	return figures.Line(Name(m.Nodes), m.Pods, m.measured...), nil
}

func newModel(cfg Config) *model {
	m := &model{cluster: newCluster(cfg)}
	m.client, m.meter = m.newClient(), newMeter()
	return m
}

// fill puts all objects into the informers' stores.
func (m *model) fill() {
	parts.Progress("%d nodes: making objects", m.Nodes)
	empty := heap()
	m.addNodes()
	nodes := heap()
	m.addVolumes()
	volumes := heap()
	m.occupy()
	m.measure(float64(len(m.slots)), "volumes")
	m.measure((nodes-empty)/float64(m.Nodes), "informer-B/node")
	m.measure((volumes-nodes)/float64(len(m.slots)), "informer-B/volume")
	m.measure(heap()-empty, "informer-B")
}

// handle is the part of the framework that the plugin uses.
type handle struct {
	fwk.Handle
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
}

func (h handle) ClientSet() kubernetes.Interface                        { return h.client }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

// build makes the plugin and delivers all existing objects to its cache.
func (m *model) build(ctx context.Context) error {
	parts.Progress("%d nodes: building the plugin's cache", m.Nodes)
	made, err := volumetopology.New(ctx, nil, handle{client: m.client, factory: m.factory})
	if err != nil {
		return err
	}
	m.plugin = made.(*volumetopology.Plugin)
	var start tally
	show := func(of *idle.Informer, objects []any) {
		m.meter.phase(&start, false, func() int {
			for _, object := range objects {
				idle.Event{Of: of, Now: object}.Deliver()
			}
			return len(objects)
		})
	}
	var listed []any
	for _, info := range m.infos {
		listed = append(listed, info.Node())
	}
	empty := heap()
	show(m.classes, m.classes.GetStore().List())
	show(m.nodes, listed)
	nodes := heap()
	listed = listed[:0]
	for _, s := range m.slots {
		volume, err := m.volume(s.name)
		if err != nil {
			return err
		}
		listed = append(listed, volume)
	}
	nodes, empty = heap(), heap()-(nodes-empty) // the list has grown
	show(m.volumes, listed)
	volumes := heap()
	show(m.claims, m.claims.GetStore().List())
	show(m.pods, m.pods.GetStore().List())
	// The first PreFilter visits all claims once more: also part of it.
	m.meter.phase(&start, false, func() int { m.plugin.Cache().Ready(ctx.Done()); return 1 })
	m.measure(start.spent.Seconds(), "start-sec")
	m.measure((nodes-empty)/float64(m.Nodes), "B/node")
	m.measure((volumes-nodes)/float64(len(m.slots)), "B/volume") // segments count as the volumes'
	m.measure(heap()-empty, "cache-B")
	runtime.KeepAlive(listed)
	return nil
}

// simulate places the pods.
func (m *model) simulate(ctx context.Context) error {
	every := max(m.Pods/probes, 5)
	m.events = tally{}
	begin := time.Now()
	for i := range m.Pods {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped after %d of %d pods: %w", i, m.Pods, context.Cause(ctx))
		}
		if err := m.next(ctx, i%every == every-1); err != nil {
			return fmt.Errorf("pod %d of %d: %w", i+1, m.Pods, err)
		}
		if (i+1)%max(m.Pods/10, 1) == 0 {
			parts.Progress("%d nodes: %d pods placed in %s", m.Nodes, i+1, time.Since(begin).Round(time.Second/10))
		}
	}
	m.measure(time.Since(begin).Seconds(), "wall-sec")
	return nil
}

// next places one pod and advances the cluster.
func (m *model) next(ctx context.Context, probe bool) error {
	a, err := m.arrive()
	if err != nil {
		return err
	}
	state, node, err := m.place(ctx, a.pod, probe)
	if err != nil {
		return err
	}
	if status := m.plugin.PreBind(ctx, state, a.pod, m.infos[node].Node().Name); !status.IsSuccess() {
		return fmt.Errorf("bind volumes of pod %s: %w", a.pod.Name, status.AsError())
	}
	m.deliverWritten()
	if err := m.setPhases(a); err != nil {
		return err
	}
	m.begin(a, node)
	if err := m.stream(); err != nil {
		return err
	}
	return m.freeVolumes()
}

// report works out the figures of the calls.
func (m *model) report() {
	pods := float64(m.Pods)
	for _, call := range []struct {
		name string
		of   *tally
	}{{"PreFilter", &m.preFilter}, {"Filter", &m.filter}, {"Score", &m.score}, {"Reserve", &m.reserve}} {
		m.measure(call.of.seconds(), call.name+"-sec")
		m.measure(call.of.p99(), call.name+"-p99-sec")
	}
	m.measure(m.nodeRead.seconds(), "node-read-sec")
	m.measure(m.events.seconds(), "event-sec")
	spent := m.preFilter.spent + m.filter.spent + m.score.spent + m.reserve.spent
	m.measure(per(spent.Seconds(), m.preFilter.calls), "pod-sec")
	m.measure(float64(m.filtered)/pods, "Filter/pod")
	m.measure(float64(m.scored)/pods, "Score/pod")
	m.measure(float64(m.events.calls)/pods, "events/pod")
	m.measure(float64(m.refused)/float64(m.filtered), "refused-share")
}
