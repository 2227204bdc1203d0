// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
)

// CacheSize is the number of objects in a scheduling cache. Reservations counts claims.
type CacheSize struct {
	Volumes, Segments, Nodes, Reservations int
	Provisioning                           map[string]Provisioning // by storage class
}

// Provisioning is the capacity held for claims of a class whose volumes are being provisioned.
type Provisioning struct {
	Claims  int   // claims with held capacity
	Bytes   int64 // held
	Overdue int   // claims whose volume did not appear in time: their capacity is no longer held
}

var (
	indexVolumes  = scheduler.desc("index_volumes", "PersistentVolumes in the index.")
	indexSegments = scheduler.desc("index_segments", "Distinct conditions on nodes in the index: of volumes, of storage capacity and of storage classes.")
	indexNodes    = scheduler.desc("index_nodes", "Nodes in the index.")
	reservations  = scheduler.desc("reservations", "Claims for which a volume or capacity is reserved and that are not bound yet.")

	provisioningClaims  = scheduler.desc("provisioning_claims", "Claims for which storage capacity is held until their volumes are provisioned and the driver reports it, by storage class.", classLabel)
	provisioningBytes   = scheduler.desc("provisioning_held_bytes", "Bytes of storage capacity that are held for these claims, by storage class.", classLabel)
	provisioningOverdue = scheduler.desc("provisioning_overdue_claims", "Claims whose volume did not appear within 15 minutes on the selected node, so that their capacity is no longer held, by storage class.", classLabel)
)

const classLabel = "storage_class"

// caches collects the sizes of all caches in the process, only when metrics are scraped.
var caches = &cacheCollector{sizes: map[*func() CacheSize]struct{}{}}

type cacheCollector struct {
	metrics.BaseStableCollector

	mu    sync.Mutex
	sizes map[*func() CacheSize]struct{}
}

// WatchCache includes a cache in the metrics until stop is called. size must be cheap and
// safe for concurrent use.
func WatchCache(size func() CacheSize) (stop func()) {
	key := &size
	caches.mu.Lock()
	defer caches.mu.Unlock()
	caches.sizes[key] = struct{}{}
	return func() {
		caches.mu.Lock()
		defer caches.mu.Unlock()
		delete(caches.sizes, key)
	}
}

// DescribeWithStability implements metrics.StableCollector.
func (*cacheCollector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{
		indexVolumes, indexSegments, indexNodes, reservations, provisioningClaims, provisioningBytes, provisioningOverdue,
	} {
		ch <- desc
	}
}

// CollectWithStability reports the sums over all caches.
func (c *cacheCollector) CollectWithStability(ch chan<- metrics.Metric) {
	sum := CacheSize{Provisioning: map[string]Provisioning{}}
	c.mu.Lock()
	for size := range c.sizes {
		s := (*size)()
		sum.Volumes += s.Volumes
		sum.Segments += s.Segments
		sum.Nodes += s.Nodes
		sum.Reservations += s.Reservations
		for class, p := range s.Provisioning {
			of := sum.Provisioning[class]
			sum.Provisioning[class] = Provisioning{of.Claims + p.Claims, of.Bytes + p.Bytes, of.Overdue + p.Overdue}
		}
	}
	c.mu.Unlock()
	gauge := func(desc *metrics.Desc, value int, labels ...string) {
		ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, float64(value), labels...)
	}
	for class, p := range sum.Provisioning {
		gauge(provisioningClaims, p.Claims, class)
		gauge(provisioningBytes, int(p.Bytes), class)
		gauge(provisioningOverdue, p.Overdue, class)
	}
	gauge(indexVolumes, sum.Volumes)
	gauge(indexSegments, sum.Segments)
	gauge(indexNodes, sum.Nodes)
	gauge(reservations, sum.Reservations)
}
