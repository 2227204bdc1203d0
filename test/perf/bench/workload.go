// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/perf/result"
)

// Workload is a load at one size, and who carries it.
type Workload struct {
	Name, Title, Group                  string
	Nodes, VolumesPerNode, ClaimsPerPod int
	// Arms that run it, in this order in each round.
	Arms []Share
	// Limit for one run, from the first pod on: an arm that takes longer
	// is stopped.
	Limit time.Duration
	// Quick workloads make up the quick set.
	Quick bool

	// defaultQPS leaves the scheduler's client at kube-scheduler's defaults.
	defaultQPS bool
	// controlled clusters have kwok and the controllers of StatefulSets,
	// without the controllers' limit of 20 requests a second.
	controlled bool
	// claims are the state of the pods' claims when the load begins.
	claims claimKind
	// done reports when a pod counts; nil: when it has a node.
	done func(*v1.Pod) bool
	// before the load begins, and unmeasured; nil: nothing.
	before func(context.Context, *site) error
	// load creates the pods and waits until they are done; nil: all at once.
	load func(context.Context, *site, []*v1.Pod) error
}

// Share is an arm's part in a workload.
type Share struct {
	Arm result.Arm
	// Pods to create: fewer for an arm that would take hours.
	Pods int
}

// ExtenderWorkloads lists those of docs/extender-benchmarks.md, in the order in which they
// are run and shown.
func ExtenderWorkloads() []Workload {
	const limit = 10 * minute
	return []Workload{{
		Name: "sides", Title: "500 pods, 1,000 local volumes", Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, Limit: limit,
		Arms: []Share{{result.Direct, 500}, {result.ExtenderFull, 500}, {result.ExtenderAdvisory, 500}, {result.Stock, 500}},
	}, {
		// The warm-up takes one volume.
		Name: "tight", Title: "1,000 pods, 1,000 local volumes: each must be used", Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, Limit: limit,
		Arms: []Share{{result.Direct, 1000 - warmUp}, {result.ExtenderFull, 1000 - warmUp}, {result.ExtenderAdvisory, 1000 - warmUp}, {result.Stock, 1000 - warmUp}},
	}}
}

// Result is the workload's entry in a file of results, without runs.
func (w Workload) Result() result.Workload {
	return result.Workload{
		Name: w.Name, Title: w.Title, Group: w.Group,
		Nodes: w.Nodes, VolumesPerNode: w.VolumesPerNode, ClaimsPerPod: w.ClaimsPerPod,
	}
}

const minute = time.Minute

// Workloads lists all workloads in the order in which they are run and shown.
func Workloads() []Workload {
	var all []Workload
	add := func(w Workload) {
		if w.Limit == 0 {
			w.Limit = 2 * minute
		}
		all = append(all, w)
	}

	for _, s := range []struct{ nodes, stock, ours int }{{100, 100, 900}, {500, 30, 1500}, {1000, 8, 1500}, {2000, 0, 1500}, {5000, 0, 1500}} {
		add(static(s.nodes, 1, s.stock, s.ours))
	}
	for _, s := range []struct{ nodes, stock, ours int }{{100, 40, 180}, {500, 8, 500}, {1000, 3, 500}} {
		add(static(s.nodes, 4, s.stock, s.ours))
	}
	add(Workload{
		Name: "single", Title: "one pod at a time on an idle cluster", Group: "one pod at a time",
		Nodes: 50, VolumesPerNode: 2, ClaimsPerPod: 1, Quick: true,
		Arms: []Share{{result.Stock, 20}, {result.Direct, 60}}, load: oneByOne,
	})
	add(Workload{
		Name: "bound", Title: "claims that are bound already", Group: "bound claims",
		Nodes: 500, VolumesPerNode: 10, ClaimsPerPod: 1, claims: boundClaims,
		Arms: []Share{{result.Stock, 1000}, {result.Direct, 1000}},
	})
	add(Workload{
		Name: "plain", Title: "pods without claims beside the volumes of others", Group: "no claims",
		Nodes: 500, VolumesPerNode: 10, claims: noClaims,
		Arms: []Share{{result.Stock, 1500}, {result.Direct, 1500}},
	})
	add(Workload{
		Name: "dynamic", Title: "provisioned by node, one CSIStorageCapacity a node", Group: "provisioned",
		Nodes: 500, ClaimsPerPod: 1, claims: claimsToProvision,
		Arms: []Share{{result.Stock, 100}, {result.Direct, 300}},
	})
	add(Workload{
		Name: "refused", Title: "pods that fit nowhere: one failed attempt each", Group: "unschedulable",
		Nodes: 500, VolumesPerNode: 10, ClaimsPerPod: 1, claims: claimsTooLarge,
		Arms: []Share{{result.Stock, 10}, {result.Direct, 500}}, done: wasRefused,
	})
	add(Workload{
		Name: "waiting", Title: "events on volumes and nodes while 1,000 pods wait that fit nowhere (figures are per event)", Group: "unschedulable, events",
		Nodes: 20, VolumesPerNode: 10, ClaimsPerPod: 1, claims: claimsTooLarge,
		Arms: []Share{{result.Stock, 300}, {result.Direct, 300}}, done: wasRefused, before: letPodsWait, load: sendEvents,
	})
	add(Workload{
		Name: "modes", Title: "both binding modes beside a PV controller at 20 requests a second", Group: "binding modes",
		Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, Quick: true,
		Arms: []Share{{result.Direct, 500}, {result.PVController, 100}},
	})
	add(Workload{
		Name: "defaults", Title: "all defaults: scheduler client at 50 requests a second", Group: "defaults",
		Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, defaultQPS: true,
		Arms: []Share{{result.Stock, 100}, {result.Direct, 300}},
	})
	add(Workload{
		Name: "statefulsets", Title: "StatefulSets that start pod by pod and are rolled once", Group: "StatefulSets",
		Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, claims: noClaims, controlled: true,
		Arms: []Share{{result.Stock, 100}, {result.Direct, 100}}, load: rollStatefulSets,
	})
	add(Workload{
		// Pods without claims: the stock plugin takes minutes for one with a claim.
		Name: "memory-5000", Title: "memory beside 50,000 volumes (pods without claims)", Group: "memory",
		Nodes: 5000, VolumesPerNode: 10, claims: noClaims,
		Arms: []Share{{result.Stock, 500}, {result.Direct, 500}},
	})
	return all
}

// static is the main workload: claims of a WaitForFirstConsumer class for local
// volumes that all fit.
func static(nodes, claims, stock, ours int) Workload {
	w := Workload{
		Name:  fmt.Sprintf("static-%d", nodes),
		Title: fmt.Sprintf("%d × 10 local volumes, WaitForFirstConsumer", nodes),
		Group: "static, 1 claim",
		Nodes: nodes, VolumesPerNode: 10, ClaimsPerPod: claims,
		Quick: claims == 1 && nodes <= 500,
	}
	if claims > 1 {
		w.Name = fmt.Sprintf("static-%d-%dclaims", nodes, claims)
		w.Title += fmt.Sprintf(", %d claims a pod", claims)
		w.Group = fmt.Sprintf("static, %d claims", claims)
	}
	if stock > 0 {
		w.Arms = append(w.Arms, Share{result.Stock, stock})
	}
	w.Arms = append(w.Arms, Share{result.Direct, ours}, Share{result.Ceiling, ours})
	return w
}
