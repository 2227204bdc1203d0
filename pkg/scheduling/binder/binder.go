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

	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Mode says who completes a binding.
type Mode string

const (
	// Direct writes the whole binding, safely beside a running PV controller.
	Direct Mode = "Direct"
	// PVController writes the volume's claimRef or the claim's selected-node
	// and lets the PV controller do the rest, as the stock plugin does.
	PVController Mode = "PVController"
)

// Cache is what the binder reads: the newest state of the cluster that is
// known to this process. Objects it returns are shared and never changed.
// It must be safe for concurrent use.
type Cache interface {
	// Volume returns the newest version seen, nil if there is none.
	Volume(name string) *v1.PersistentVolume
	// Claim returns the newest version seen, nil if there is none.
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	// VolumeFor returns a volume whose claimRef names the claim (namespace,
	// name, and UID where it is set), nil if there is none.
	VolumeFor(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume
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
	// ApplyVolume takes in an API response, so that own writes need not come
	// back through a watch. The newer resourceVersion wins.
	ApplyVolume(*v1.PersistentVolume)
	// ApplyClaim is ApplyVolume for a claim.
	ApplyClaim(*v1.PersistentVolumeClaim)
}

// Config is what a Binder is made of. All fields are required.
type Config struct {
	// Client writes with the scheduler's rights.
	Client kubernetes.Interface
	// Cache is what is known of the cluster.
	Cache Cache
	// Timeout is the deadline of one Bind call, waiting for provisioners and
	// for the PV controller included.
	Timeout time.Duration
	// Mode says who completes a binding. Direct needs the rights that Allowed
	// looks for.
	Mode Mode
}

// Binder carries out binding plans. It is safe for concurrent use.
type Binder struct {
	client  kubernetes.Interface
	cache   Cache
	timeout time.Duration
	mode    Mode

	ending  chan struct{} // closed by Settle
	mu      sync.Mutex
	ended   bool          // ending is closed
	calls   int           // that have not returned, and those whose volumes' phases are open
	settled chan struct{} // closed when there are none; nil unless waited for
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
	return &Binder{client: c.Client, cache: c.Cache, timeout: c.Timeout, mode: c.Mode, ending: make(chan struct{})}, nil
}

// Bind carries out the plan and returns when every claim of it is bound, its
// volumes admit the node, and node and pod still exist. In Direct mode the phase of a volume
// may follow within seconds. On failure it returns the first cause, without waiting for
// other claims: a *plan.Failure, an
// *APIError, a *TimeoutError, or one that wraps the cause of ctx's end.
//
// An error does not mean that nothing was written: see the package comment for
// what is undone and what stays. Calls for different pods may run at once, also
// when their plans share claims.
func (b *Binder) Bind(ctx context.Context, p *plan.Plan) error {
	return b.work(ctx, p, (*run).carryOut)
}

// Advance is Bind for callers that cannot wait for a provisioner: when one has
// still to make a volume it returns a *ProvisioningError, and what has been
// written stays: claimRefs, and the nodes selected. Call it again with a new plan
// once the claims have changed. For a plan without provisions it is Bind.
func (b *Binder) Advance(ctx context.Context, p *plan.Plan) error {
	return b.work(ctx, p, (*run).advance)
}

// Settle returns when no call is under way, or when ctx ends. Phases of volumes that are
// open stay so, for the PV controller. After the context of all calls has ended nothing is
// written later than that: a call that begins writes nothing.
func (b *Binder) Settle(ctx context.Context) {
	b.mu.Lock()
	if !b.ended {
		b.ended = true
		close(b.ending)
	}
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

func (b *Binder) begin() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.calls--; b.calls == 0 && b.settled != nil {
			close(b.settled)
			b.settled = nil
		}
	}
}

func (b *Binder) work(ctx context.Context, p *plan.Plan, how func(*run, context.Context) error) error {
	if p.Empty() {
		return nil
	}
	defer b.begin()()
	start := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, b.timeout, errDeadline)
	defer cancel()
	changed, stop := b.cache.Subscribe(p)
	defer stop()

	r := newRun(b, p, changed)
	err := how(r, limited)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if _, provisioning := errors.AsType[*ProvisioningError](err); err != nil && !provisioning {
		cause := err
		err = r.explain(ctx, cause)
		r.undo(limited, cause)
	}
	metrics.ObserveBind(string(b.mode), outcome(err), time.Since(start))
	return err
}
