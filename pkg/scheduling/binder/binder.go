// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

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
