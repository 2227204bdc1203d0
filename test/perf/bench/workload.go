// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/perf/benchfmt"
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/perf/figures"
)

// Arm is a scheduler, or a client that sends the writes of scheduling.
type Arm string

// The arms.
const (
	// Stock is the stock profile: VolumeBinding.
	Stock Arm = "stock"
	// Direct is VolumeTopology with the default binding mode.
	Direct Arm = "stowage"
	// PVController is VolumeTopology with bindingMode PVController.
	PVController Arm = "stowage-PVController"
	// Ceiling is no scheduler: a bare client that does the same writes.
	Ceiling Arm = "write-ceiling"
	// ExtenderFull and ExtenderAdvisory are the stock scheduler with the extender, by its mode.
	ExtenderFull     Arm = "extender-Full"
	ExtenderAdvisory Arm = "extender-Advisory"
	// InPlace is stowage-controller instead of the PV controller, with Direct where there are pods.
	InPlace Arm = "stowage-inPlace"
	// BindNow is stowage-controller with claimBinder.bindNow beside the PV controller.
	BindNow Arm = "stowage-bindNow"
	// Controller is the PV controller, without a scheduler.
	Controller Arm = "pv-controller"
)

// Workload is a load at one size, and who carries it.
type Workload struct {
	Name, Title                         string
	Nodes, VolumesPerNode, ClaimsPerPod int
	// Arms that run it, in this order in each round.
	Arms []Share
	// Limit for one run, from the first pod on: an arm that takes longer
	// is stopped.
	Limit time.Duration
	// Quick workloads make up the quick set.
	Quick bool
	// KubeScheduler runs all arms but Direct on kube-scheduler itself.
	KubeScheduler bool

	// defaultQPS leaves the scheduler's client at kube-scheduler's defaults.
	defaultQPS bool
	// controlled clusters have kwok and the controllers of StatefulSets,
	// without the controllers' limit of 20 requests a second.
	controlled bool
	// claimsOnly: there are no pods, and each volume has another size.
	claimsOnly bool
	// claims are the state of the pods' claims when the load begins.
	claims claimKind
	// done reports when a pod counts; nil: when it has a node.
	done func(*v1.Pod) bool
	// before the load begins, and unmeasured; nil: nothing.
	before func(context.Context, *setup) error
	// load creates the pods and waits until they are done; nil: all at once.
	load func(context.Context, *setup, []*v1.Pod) error
}

// Share is an arm's part in a workload.
type Share struct {
	Arm Arm
	// Pods to create, or claims without pods: fewer for an arm that would take hours.
	Pods int
}

// Prefix is how the names of the workload's results begin.
func (w Workload) Prefix() string { return "Cluster/workload=" + w.Name }

// Config describes the workload in its results.
func (w Workload) Config() []benchfmt.Config {
	return []benchfmt.Config{
		figures.Key("title", w.Title), figures.Key("nodes", strconv.Itoa(w.Nodes)),
		figures.Key("volumes-per-node", strconv.Itoa(w.VolumesPerNode)), figures.Key("claims-per-pod", strconv.Itoa(w.ClaimsPerPod)),
	}
}

const minute = time.Minute

// Workloads lists all workloads in the order in which they are run and shown.
func Workloads() []Workload {
	var all []Workload
	add := func(w Workload) {
		w.Limit = cmp.Or(w.Limit, 2*minute)
		all = append(all, w)
	}

	for _, s := range []struct{ nodes, stock, ours int }{{100, 100, 900}, {500, 30, 1500}, {1000, 8, 1500}, {2000, 0, 1500}, {5000, 0, 1500}} {
		add(static(s.nodes, 1, s.stock, s.ours))
	}
	for _, s := range []struct{ nodes, stock, ours int }{{100, 40, 180}, {500, 8, 500}, {1000, 3, 500}} {
		add(static(s.nodes, 4, s.stock, s.ours))
	}
	add(Workload{
		Name: "single", Title: "one pod at a time on an idle cluster",
		Nodes: 50, VolumesPerNode: 2, ClaimsPerPod: 1, Quick: true,
		Arms: []Share{{Stock, 20}, {Direct, 60}}, load: oneByOne,
	})
	add(Workload{
		Name: "bound", Title: "claims that are bound already",
		Nodes: 500, VolumesPerNode: 10, ClaimsPerPod: 1, claims: boundClaims,
		Arms: []Share{{Stock, 1000}, {Direct, 1000}},
	})
	add(Workload{
		Name: "plain", Title: "pods without claims beside the volumes of others",
		Nodes: 500, VolumesPerNode: 10, claims: noClaims,
		Arms: []Share{{Stock, 1500}, {Direct, 1500}},
	})
	add(Workload{
		Name: "dynamic", Title: "provisioned by node, one CSIStorageCapacity a node",
		Nodes: 500, ClaimsPerPod: 1, claims: claimsToProvision,
		Arms: []Share{{Stock, 100}, {Direct, 300}, {InPlace, 900}},
	})
	add(Workload{
		Name: "refused", Title: "pods that fit nowhere: one failed attempt each",
		Nodes: 500, VolumesPerNode: 10, ClaimsPerPod: 1, claims: claimsTooLarge,
		Arms: []Share{{Stock, 10}, {Direct, 500}}, done: wasRefused,
	})
	add(Workload{
		Name: "waiting", Title: "events on volumes and nodes while 1,000 pods wait that fit nowhere (figures are per event)",
		Nodes: 20, VolumesPerNode: 10, ClaimsPerPod: 1, claims: claimsTooLarge,
		Arms: []Share{{Stock, 300}, {Direct, 300}}, done: wasRefused, before: letPodsWait, load: sendEvents,
	})
	add(Workload{
		Name: "modes", Title: "both binding modes beside a PV controller at 20 requests a second",
		Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, Quick: true,
		Arms: []Share{{Direct, 500}, {PVController, 100}},
	})
	add(Workload{
		Name: "defaults", Title: "all defaults: scheduler client at 50 requests a second",
		Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, defaultQPS: true,
		Arms: []Share{{Stock, 100}, {Direct, 300}},
	})
	add(Workload{
		Name: "statefulsets", Title: "StatefulSets that start pod by pod and are rolled once",
		Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, claims: noClaims, controlled: true,
		Arms: []Share{{Stock, 100}, {Direct, 100}}, load: rollStatefulSets,
	})
	add(Workload{
		// Pods without claims: the stock plugin takes minutes for one with a claim.
		Name: "memory-5000", Title: "memory beside 50,000 volumes (pods without claims)",
		Nodes: 5000, VolumesPerNode: 10, claims: noClaims,
		Arms: []Share{{Stock, 500}, {Direct, 500}},
	})
	add(Workload{
		Name: "sides", Title: "500 pods, 1,000 local volumes", Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, Limit: 10 * minute, KubeScheduler: true,
		Arms: []Share{{Direct, 500}, {ExtenderFull, 500}, {ExtenderAdvisory, 500}, {Stock, 500}},
	})
	// The warm-up takes one volume.
	const each = 1000 - warmUp
	add(Workload{
		Name: "tight", Title: "1,000 pods, 1,000 local volumes: each must be used", Nodes: 100, VolumesPerNode: 10, ClaimsPerPod: 1, Limit: 10 * minute, KubeScheduler: true,
		Arms: []Share{{Direct, each}, {ExtenderFull, each}, {ExtenderAdvisory, each}, {Stock, each}},
	})
	return all
}

// static is the main workload: claims of a WaitForFirstConsumer class for local
// volumes that all fit.
func static(nodes, claims, stock, ours int) Workload {
	w := Workload{
		Name:  fmt.Sprintf("static-%d", nodes),
		Title: fmt.Sprintf("%d × 10 local volumes, WaitForFirstConsumer", nodes),
		Nodes: nodes, VolumesPerNode: 10, ClaimsPerPod: claims,
		Quick: claims == 1 && nodes <= 500,
	}
	if claims > 1 {
		w.Name = fmt.Sprintf("static-%d-%dclaims", nodes, claims)
		w.Title += fmt.Sprintf(", %d claims a pod", claims)
	}
	if stock > 0 {
		w.Arms = append(w.Arms, Share{Stock, stock})
	}
	w.Arms = append(w.Arms, Share{Direct, ours}, Share{Ceiling, ours})
	return w
}
