// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binder executes binding plans: it writes what a plan.Plan requires, in an order
// that leaves every object usable wherever it stops, and waits for other writers
// (provisioners, the PV controller) on informer events.
//
// Order of a plan, both modes:
//
//  1. claimRef on every volume, in parallel, each on the resourceVersion that
//     was reserved.
//  2. selected-node on every claim to be provisioned. After step 1, because a
//     provisioner cannot be stopped: losing a static volume to another claim
//     must not leave a provisioned one behind.
//  3. Wait until every claim has its volume.
//  4. Direct: volumeName and bind-completed, one write per claim, which cannot be
//     undone; then the claim's status. Not before every claim of the pod has
//     its volume, so that a failure of a provisioner can still be undone.
//     PVController: wait until the PV controller has bound the claims.
//
// # Beside the PV controller
//
// Every write is a compare-and-swap. After a conflict the object is read: as wanted already
// is success, another writer's decision is failure, and other changes lead to another write
// on the new version, a few times.
//
// A writer that binds a claim to a volume whose claimRef it did not write
// first sets the volume's phase to Bound. The PV controller does so, and so
// does Direct when it finds the claimRef in place (written for another pod
// with the same claim, or by an earlier attempt). That write changes the
// resourceVersion, so the undo of the claimRef's writer conflicts. Hence undo is
// safe on the version that our own write returned, unless that was Bound already:
// then nothing would protect the claim. A volume whose claimRef we wrote gets phase
// Bound only after its claim, so that undo stays possible until then.
//
// The PV controller marks a claim Lost if the claim is bound to a volume that
// its cache lacks, or holds with another claimRef; claims and volumes are in
// separate queues. It knows a volume that is Available. It knows a provisioned
// volume once the phase is no longer Pending, so Direct waits for that. It knows a
// volume that its owner pre-bound by name as the claim's once it has set phase Bound;
// Direct waits for that too, for a limited time, so that it works without a PV
// controller. It may still hold for another claim a volume whose claimRef was undone,
// which an annotation records until the next binding is complete: there, too,
// Direct waits for Bound. A binder that finds the next claimRef in place also waits,
// and does not set the phase meanwhile. If a claim is marked Lost nevertheless,
// writing its status repairs it.
//
// A PV controller that has set a volume Bound writes the claim next. Direct leaves that to it
// for a second, since both would write the same version, and then writes what is missing.
// No pod waits for the phase of a volume whose claim Direct has bound; it is left to the PV
// controller for ten seconds. A PV controller that has not set the phase of a provisioned
// volume for seconds is limited by its client: Direct sets the phase for it, and leaves the
// claim to it without a time limit.
//
// # Stopping
//
// When the context ends or a step fails, requests in flight have a few seconds to return,
// since a write of unknown outcome cannot be undone. Writes before step 4 are then undone
// where that is safe. A claim in step 4 is completed. An incomplete binding is completed by
// the PV controller, or by the pod's next scheduling cycle.
package binder

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Mode is who completes a binding.
type Mode string

const (
	// Direct writes the whole binding, safely beside a running PV controller.
	Direct Mode = "Direct"
	// PVController writes the volume's claimRef or the claim's selected-node
	// and lets the PV controller do the rest, as the stock plugin does.
	PVController Mode = "PVController"
)

// Cache is the newest state of the cluster that this process has observed. Objects
// that it returns are shared and never changed. It must be safe for concurrent use.
type Cache interface {
	// Volume returns the newest version seen, nil if there is none.
	Volume(name string) *v1.PersistentVolume
	// Claim returns the newest version seen, nil if there is none.
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	// VolumeFor returns a volume whose claimRef names the claim (namespace,
	// name, and UID where it is set), nil if there is none.
	VolumeFor(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume
	// NodeExists reports whether the node exists.
	NodeExists(node string) bool
	// NodeAdmits reports whether the node exists, and whether the volume's node
	// affinity, CSI migration considered, admits it.
	NodeAdmits(volume *v1.PersistentVolume, node string) (exists, admits bool)
	// PodExists reports whether the pod with this UID exists.
	PodExists(pod types.NamespacedName, uid types.UID) bool
	// Subscribe returns a channel of capacity one that holds a signal after
	// any event on the plan's pod, node, claims or volumes, or on a volume
	// whose claimRef names one of its claims, from the time of the call until
	// stop is called.
	Subscribe(p *plan.Plan) (changed <-chan struct{}, stop func())
	// ApplyVolume stores an API response, so that own writes do not depend on
	// the watch. The newer resourceVersion wins.
	ApplyVolume(*v1.PersistentVolume)
	// ApplyClaim is ApplyVolume for a claim.
	ApplyClaim(*v1.PersistentVolumeClaim)
}

// Config configures a Binder. All fields are required.
type Config struct {
	// Client writes with the scheduler's rights.
	Client kubernetes.Interface
	// Cache has the state of the cluster.
	Cache Cache
	// Timeout is the deadline of one Bind call, waiting for provisioners and
	// for the PV controller included.
	Timeout time.Duration
	// Mode is who completes a binding. Direct needs the rights that Allowed
	// reviews.
	Mode Mode
}

// Binder executes binding plans. It is safe for concurrent use.
type Binder struct {
	client  kubernetes.Interface
	cache   Cache
	timeout time.Duration
	mode    Mode

	mu      sync.Mutex
	ended   bool                     // Shutdown was called
	calls   int                      // that have not returned, and timers that have not
	settled chan struct{}            // closed when there are none; nil without a waiter
	timers  map[*time.Timer]struct{} // see after
}

// New checks the configuration and returns a Binder.
func New(c Config) (*Binder, error) {
	switch {
	case c.Client == nil:
		return nil, errors.New("binder: Client is not set")
	case c.Cache == nil:
		return nil, errors.New("binder: Cache is not set")
	case c.Timeout <= 0:
		return nil, errors.New("binder: Timeout must be more than 0")
	case c.Mode != Direct && c.Mode != PVController:
		return nil, errors.New("binder: Mode must be Direct or PVController")
	}
	return &Binder{client: c.Client, cache: c.Cache, timeout: c.Timeout, mode: c.Mode, timers: map[*time.Timer]struct{}{}}, nil
}

// Shutdown returns when no call is in progress, or when ctx ends. Phases of volumes that are
// open stay so, for the PV controller. After the context of all calls has ended nothing is
// written later than that: a call that begins writes nothing.
func (b *Binder) Shutdown(ctx context.Context) {
	b.mu.Lock()
	b.ended = true
	for timer := range b.timers {
		if timer.Stop() {
			b.calls--
		}
	}
	clear(b.timers)
	if b.calls == 0 {
		b.mu.Unlock()
		return
	}
	if b.settled == nil {
		b.settled = make(chan struct{})
	}
	settled := b.settled
	b.mu.Unlock()
	select {
	case <-settled:
	case <-ctx.Done():
	}
}

// begin counts a call until end.
func (b *Binder) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
}

func (b *Binder) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls--; b.calls == 0 && b.settled != nil {
		close(b.settled)
		b.settled = nil
	}
}

// after calls write after the delay, unless Shutdown is called first. It counts as a call until
// write has returned.
func (b *Binder) after(delay time.Duration, write func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.calls++
	var timer *time.Timer
	timer = time.AfterFunc(delay, func() {
		defer b.end()
		b.mu.Lock()
		delete(b.timers, timer)
		ended := b.ended
		b.mu.Unlock()
		if !ended {
			write()
		}
	})
	b.timers[timer] = struct{}{}
}
