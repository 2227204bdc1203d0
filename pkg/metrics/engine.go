// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
)

// EngineSize is how much an engine holds.
type EngineSize struct{ Volumes, Segments, Nodes, Reservations int }

var (
	indexVolumes = engineDesc("index_volumes", "PersistentVolumes in the index.")
	// Segments stand for conditions on nodes.
	indexSegments = engineDesc("index_segments", "Distinct conditions on nodes in the index: of volumes, of storage capacity and of storage classes.")
	indexNodes    = engineDesc("index_nodes", "Nodes in the index.")
	reservations  = engineDesc("reservations", "Claims for which a volume or capacity is reserved and that are not bound yet.")
)

func engineDesc(name, help string) *metrics.Desc {
	return metrics.NewDesc(metrics.BuildFQName(namespace, subsystem, name), help, nil, nil, metrics.ALPHA, "")
}

// engines is the collector of the sizes of all engines in the process, asked
// when metrics are scraped and at no other time.
var engines = &engineCollector{sizes: map[*func() EngineSize]struct{}{}}

type engineCollector struct {
	metrics.BaseStableCollector

	mu    sync.Mutex
	sizes map[*func() EngineSize]struct{}
}

// WatchEngine counts an engine in until stop is called. size must be quick and
// safe for concurrent use.
func WatchEngine(size func() EngineSize) (stop func()) {
	key := &size
	engines.mu.Lock()
	defer engines.mu.Unlock()
	engines.sizes[key] = struct{}{}
	return func() {
		engines.mu.Lock()
		defer engines.mu.Unlock()
		delete(engines.sizes, key)
	}
}

// DescribeWithStability names the metrics.
func (*engineCollector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{indexVolumes, indexSegments, indexNodes, reservations} {
		ch <- desc
	}
}

// CollectWithStability gives the sums over all engines.
func (c *engineCollector) CollectWithStability(ch chan<- metrics.Metric) {
	var sum EngineSize
	c.mu.Lock()
	for size := range c.sizes {
		s := (*size)()
		sum.Volumes += s.Volumes
		sum.Segments += s.Segments
		sum.Nodes += s.Nodes
		sum.Reservations += s.Reservations
	}
	c.mu.Unlock()
	gauge := func(desc *metrics.Desc, value int) {
		ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, float64(value))
	}
	gauge(indexVolumes, sum.Volumes)
	gauge(indexSegments, sum.Segments)
	gauge(indexNodes, sum.Nodes)
	gauge(reservations, sum.Reservations)
}
