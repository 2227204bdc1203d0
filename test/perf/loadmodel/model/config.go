// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model simulates a scheduler with the VolumeTopology plugin and
// without an API server: a cluster of any size in the stores of informers, pods
// that are created, placed and deleted, and a stream of other events. It measures
// the cost of the plugin's calls and the memory of its cache, at sizes
// that no test cluster reaches.
//
// Real are the plugin with its packages (cache, binder), the framework's
// NodeInfo and CycleState, the informers' stores, and kube-scheduler's rules
// for the nodes to visit (how many feasible ones are enough, where the next
// pod's search begins, what PreFilter's narrowing means). Modelled are the
// PV controller, which sets the phases of bound volumes, and the API server: it keeps each
// object in the informer's store and accepts a write only on the version that was read; watch events reach the handlers after PreBind, one
// after another. All calls are made on one thread, whose CPU time is measured:
// what 16 goroutines of kube-scheduler would do in parallel is sequential.
//
// Each run begins in its steady state: a share of all volumes is bound,
// and whenever a pod was placed, others end until that share is reached again. So
// all sizes have the same mix of answers, and their figures are comparable.
package model

import (
	"errors"
	"fmt"
)

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
	// Stream is what else changes in the cluster.
	Stream Stream
	// Seed makes two runs alike.
	Seed uint64
	// Progress receives progress messages; nil discards them.
	Progress func(format string, args ...any)
}

// Stream is how many objects change per placed pod, in addition to the
// pod's own changes.
type Stream struct {
	Nodes   int
	Volumes int
	Claims  int
}

// Default is the workload whose figures are published.
func Default(nodes, pods int) Config {
	return Config{
		Nodes: nodes, VolumesPerNode: 10, Pods: pods,
		Occupied: 0.5, FourClaims: 0.1, Returning: 0.05,
		Stream: Stream{Nodes: 2, Volumes: 2, Claims: 1},
		Seed:   1,
	}
}

func (c *Config) validate() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(c.Nodes < 10, "%d nodes are too few for pods with four claims to find a place: at least 10", c.Nodes)
	wrong(c.VolumesPerNode < 4, "%d volumes per node are less than the claims of one pod: at least 4", c.VolumesPerNode)
	wrong(c.Pods < 10, "%d pods are too few to measure anything: at least 10", c.Pods)
	wrong(c.Occupied <= 0 || c.Occupied > 0.7, "occupied share %v: must be more than 0 and at most 0.7, so that every pod finds a place", c.Occupied)
	wrong(c.FourClaims < 0 || c.Returning < 0 || c.FourClaims+c.Returning > 1, "shares of pods must lie between 0 and 1 together")
	return errors.Join(errs...)
}
