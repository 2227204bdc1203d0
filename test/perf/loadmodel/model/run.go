// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/volumetopology"
	"stowage.dev/stowage/test/perf/loadmodel/idle"
)

// Point is what one size of cluster costs. Times are CPU time of the thread
// that calls (wall time where Linux does not measure it), in nanoseconds and
// the mean per call, unless they say otherwise.
type Point struct {
	Nodes   int `json:"nodes"`
	Volumes int `json:"volumes"`
	Pods    int `json:"pods"`

	PreFilterNanos float64 `json:"prefilterNanos"`
	FilterNanos    float64 `json:"filterNanos"`
	ScoreNanos     float64 `json:"scoreNanos"`
	ReserveNanos   float64 `json:"reserveNanos"`
	// LookNanos is what reading one field of a node costs, for comparison.
	LookNanos float64 `json:"lookNanos"`
	// PodNanos is all these calls of a pod together.
	PodNanos float64 `json:"podNanos"`
	// EventNanos is what the plugin's handlers take for an event.
	EventNanos float64 `json:"eventNanos"`

	// P99 is wall time; 99 of 100 calls were quicker.
	PreFilterP99Nanos float64 `json:"prefilterP99Nanos"`
	FilterP99Nanos    float64 `json:"filterP99Nanos"`
	ScoreP99Nanos     float64 `json:"scoreP99Nanos"`
	ReserveP99Nanos   float64 `json:"reserveP99Nanos"`

	// Allocs is objects allocated per call.
	PreFilterAllocs float64 `json:"prefilterAllocs"`
	FilterAllocs    float64 `json:"filterAllocs"`
	ScoreAllocs     float64 `json:"scoreAllocs"`
	ReserveAllocs   float64 `json:"reserveAllocs"`

	FiltersPerPod float64 `json:"filtersPerPod"`
	ScoresPerPod  float64 `json:"scoresPerPod"`
	EventsPerPod  float64 `json:"eventsPerPod"`
	// RefusedShare is the share of Filter calls that say no, 0 to 1.
	RefusedShare float64 `json:"refusedShare"`

	// StartSeconds is the CPU time of building the engine from informers that
	// have everything, one idle.Event after another.
	StartSeconds float64 `json:"startSeconds"`
	// Bytes of heap that the engine takes, nodes and volumes apart. Segments
	// count as the volumes'.
	BytesPerNode   float64 `json:"bytesPerNode"`
	BytesPerVolume float64 `json:"bytesPerVolume"`
	EngineBytes    float64 `json:"engineBytes"`
	// Bytes of heap that the informers' stores take anyway.
	InformerBytesPerNode   float64 `json:"informerBytesPerNode"`
	InformerBytesPerVolume float64 `json:"informerBytesPerVolume"`
	InformerBytes          float64 `json:"informerBytes"`

	// WallSeconds is how long placing all pods took, including the model's
	// own work.
	WallSeconds float64 `json:"wallSeconds"`
}

// probes is how many pods of a run, and at most every fifth, have each of their
// calls measured on its own.
const probes = 200

type model struct {
	*cluster
	scheduler
	events tally
	point  Point
}

// Run simulates one size of cluster and returns its cost. An error means
// that a pod found no node, that a volume was bound twice, or that the
// final state is inconsistent; no figures are valid then.
func Run(ctx context.Context, cfg Config) (*Point, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the plugin forgets its engine
	m := newModel(cfg)
	if err := m.fill(); err != nil {
		return nil, fmt.Errorf("fill the informers: %w", err)
	}
	if err := m.build(ctx); err != nil {
		return nil, fmt.Errorf("build the engine: %w", err)
	}
	if err := m.simulate(ctx); err != nil {
		return nil, err
	}
	m.Progress("%d nodes: checking the final state", m.Nodes)
	if err := m.verify(); err != nil {
		return nil, fmt.Errorf("after %d pods: %w", m.Pods, err)
	}
	m.report()
	return &m.point, nil
}

func newModel(cfg Config) *model {
	m := &model{cluster: newCluster(cfg), point: Point{Nodes: cfg.Nodes, Pods: cfg.Pods}}
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
	m.point.Volumes = len(m.slots)
	m.point.InformerBytesPerNode = (nodes - empty) / float64(m.Nodes)
	m.point.InformerBytesPerVolume = (volumes - nodes) / float64(len(m.slots))
	m.point.InformerBytes = heap() - empty
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

// build makes the plugin and delivers all existing objects to its engine.
func (m *model) build(ctx context.Context) error {
	m.Progress("%d nodes: building the engine", m.Nodes)
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
	m.point.StartSeconds = start.spent.Seconds()
	m.point.BytesPerNode = (nodes - empty) / float64(m.Nodes)
	m.point.BytesPerVolume = (volumes - nodes) / float64(len(m.slots))
	m.point.EngineBytes = heap() - empty
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
	m.point.WallSeconds = time.Since(begin).Seconds()
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
	if err := m.begin(a, node); err != nil {
		return err
	}
	if err := m.stream(); err != nil {
		return err
	}
	return m.makeRoom()
}

// report works the figures out.
func (m *model) report() {
	p, pods := &m.point, float64(m.Pods)
	p.PreFilterNanos, p.PreFilterP99Nanos, p.PreFilterAllocs = m.preFilter.nanos(), m.preFilter.p99(), m.preFilter.allocations()
	p.FilterNanos, p.FilterP99Nanos, p.FilterAllocs = m.filter.nanos(), m.filter.p99(), m.filter.allocations()
	p.ScoreNanos, p.ScoreP99Nanos, p.ScoreAllocs = m.score.nanos(), m.score.p99(), m.score.allocations()
	p.ReserveNanos, p.ReserveP99Nanos, p.ReserveAllocs = m.reserve.nanos(), m.reserve.p99(), m.reserve.allocations()
	p.EventNanos = m.events.nanos()
	p.LookNanos = m.look.nanos()
	spent := m.preFilter.spent + m.filter.spent + m.score.spent + m.reserve.spent
	p.PodNanos = per(float64(spent), m.preFilter.calls)
	p.FiltersPerPod = float64(m.filtered) / pods
	p.ScoresPerPod = float64(m.scored) / pods
	p.RefusedShare = float64(m.refused) / float64(m.filtered)
	p.EventsPerPod = float64(m.events.calls) / pods
}
