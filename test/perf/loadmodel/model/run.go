// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/perf/benchfmt"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/volumetopology"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/loadmodel/idle"
)

// probes is how many pods of a run, and at most every fifth, have each of their
// calls measured on its own.
const probes = 200

type model struct {
	*cluster
	scheduler
	events tally
	// measured are the figures. Times are CPU time of the thread that calls (wall time where Linux
	// does not measure it), the mean per call, unless they say otherwise; p99 is wall time.
	// Bytes are of heap.
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
	if err := m.fill(); err != nil {
		return nil, fmt.Errorf("fill the informers: %w", err)
	}
	if err := m.build(ctx); err != nil {
		return nil, fmt.Errorf("build the plugin's cache: %w", err)
	}
	if err := m.simulate(ctx); err != nil {
		return nil, err
	}
	m.Progress("%d nodes: checking the final state", m.Nodes)
	if err := m.verify(); err != nil {
		return nil, fmt.Errorf("after %d pods: %w", m.Pods, err)
	}
	m.report()
	return figures.Line(Name(m.Nodes), m.Pods, m.measured...), nil
}

func newModel(cfg Config) *model {
	m := &model{cluster: newCluster(cfg)}
	m.meter = newMeter()
	return m
}

// fill puts all objects into the informers' stores.
func (m *model) fill() error {
	m.Progress("%d nodes: making objects", m.Nodes)
	empty := heap()
	if err := m.addNodes(); err != nil {
		return err
	}
	nodes := heap()
	if err := m.addVolumes(); err != nil {
		return err
	}
	volumes := heap()
	if err := m.occupy(); err != nil {
		return err
	}
	m.measure(float64(len(m.slots)), "volumes")
	m.measure((nodes-empty)/float64(m.Nodes), "informer-B/node")
	m.measure((volumes-nodes)/float64(len(m.slots)), "informer-B/volume")
	m.measure(heap()-empty, "informer-B")
	return nil
}

// handle is the part of the framework that the plugin uses.
type handle struct {
	fwk.Handle
	client  client
	factory informers.SharedInformerFactory
}

func (h handle) ClientSet() kubernetes.Interface                        { return h.client }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

// build makes the plugin and delivers all existing objects to its cache.
func (m *model) build(ctx context.Context) error {
	m.Progress("%d nodes: building the plugin's cache", m.Nodes)
	made, err := volumetopology.New(ctx, nil, handle{client: client{cluster: m.cluster}, factory: m.factory})
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
	m.preFilter.took = make([]time.Duration, 0, probes+2)
	m.reserve.took = make([]time.Duration, 0, probes+2)
	m.filter.took = make([]time.Duration, 0, 400_000)
	m.score.took = make([]time.Duration, 0, 400_000)
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
			m.Progress("%d nodes: %d pods placed in %s", m.Nodes, i+1, time.Since(begin).Round(time.Second/10))
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
	state, node, err := m.scheduler.place(ctx, m.cluster, a.pod, probe)
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
	if err := m.begin(a, node); err != nil {
		return err
	}
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
		m.measure(call.of.allocations(), call.name+"-allocs")
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
