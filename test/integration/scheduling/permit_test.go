// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"stowage.dev/stowage/test/integration/fixture"
)

// permit is a plugin that refuses the pod "first" each time that it has reserved its
// volumes: in its scheduling cycle, or the first time while it waits for permission.
type permit struct {
	handle fwk.Handle
	waits  bool
	// reserved is closed when the first pod has reserved, refuse by the test, and
	// canary when the pod "canary" was queued again.
	reserved, refuse, canary chan struct{}
	first                    *v1.Pod
	refused                  bool
	queued                   int // times that the canary was
}

var (
	_ fwk.PermitPlugin     = (*permit)(nil)
	_ fwk.PreEnqueuePlugin = (*permit)(nil)
)

func newPermit(waits bool) *permit {
	return &permit{waits: waits, reserved: make(chan struct{}), refuse: make(chan struct{}), canary: make(chan struct{})}
}

func (*permit) Name() string { return "TestPermit" }

// Permit is called by one goroutine.
func (p *permit) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	switch {
	case pod.Name != "first":
		return nil, 0
	case p.refused:
		return fwk.NewStatus(fwk.Unschedulable, "refused by the test"), 0
	}
	p.first, p.refused = pod, true
	close(p.reserved)
	if p.waits {
		return fwk.NewStatus(fwk.Wait), time.Hour
	}
	<-p.refuse
	return fwk.NewStatus(fwk.Unschedulable, "refused by the test"), 0
}

// PreEnqueue is called under the lock of the scheduling queue, after the hints of all
// earlier events.
func (p *permit) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if pod.Name == "canary" {
		if p.queued++; p.queued == 2 {
			close(p.canary)
		}
	}
	return nil
}

// start runs a scheduler with the plugin.
func (p *permit) start(e *fixture.Env) {
	e.Use(e.Start(fixture.SchedulerOptions{
		Profiles: []fixture.Profile{{Change: func(profile *schedulerv1.KubeSchedulerProfile) {
			profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, schedulerv1.Plugin{Name: p.Name()})
		}}},
		Registry: frameworkruntime.Registry{p.Name(): func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			p.handle = handle
			return p, nil
		}},
	}).Name())
}

// await fails the test when the channel is not closed in time.
func await(e *fixture.Env, what string, closed <-chan struct{}) {
	e.T.Helper()
	select {
	case <-closed:
	case <-time.After(e.Timeout):
		e.T.Fatalf("%s: not within %v", what, e.Timeout)
	}
}

// TestRefusedByPermit: a pod was refused, or an event was skipped for it,
// while another pod had reserved the volume that it needs. That reservation is released
// without an event of the API server. The pod is retried soon; the scheduler alone
// would retry it after five minutes.
func TestRefusedByPermit(t *testing.T) {
	t.Parallel()
	t.Run("in the scheduling cycle, an event comes in between", func(t *testing.T) {
		t.Parallel()
		e, p := fixture.New(t), newPermit(false)
		p.start(e)
		e.AddNodes(e.Node("a"))
		big, other := e.Name("big"), e.Name("other")
		e.CreateClass(e.Class("big"))
		e.CreateClass(e.Class("other"))
		e.CreatePVC(e.PVC("log"))
		e.CreatePVC(e.PVC("data").Class(big))
		second := e.CreatePod(e.Pod("second").PVC("log", "data"))
		e.WaitUnschedulable(second)
		e.CreatePVC(e.PVC("other").Class(other))
		e.WaitUnschedulable(e.CreatePod(e.Pod("canary").PVC("other")))
		e.CreatePVs(e.LocalPV("volume", "a"))
		e.CreatePVC(e.PVC("first"))
		e.CreatePod(e.Pod("first").PVC("first"))
		await(e, "the first pod reserves", p.reserved)
		e.CreatePVsUnseen(e.LocalPV("needed", "a").Class(big)) // suitable except for the reservation
		e.CreatePVsUnseen(e.LocalPV("of-canary", "a").Class(other))
		await(e, "the canary is queued", p.canary)
		close(p.refuse)
		e.WaitScheduled(second, "a")
	})
	t.Run("while it waits for permission, and its claim is bound elsewhere", func(t *testing.T) {
		t.Parallel()
		e, p := fixture.New(t), newPermit(true)
		p.start(e)
		e.AddNodes(e.Node("a"))
		e.CreatePVs(e.LocalPV("volume", "a"))
		e.CreatePVC(e.PVC("first"))
		e.CreatePod(e.Pod("first").PVC("first"))
		await(e, "the first pod reserves", p.reserved)
		e.CreatePVC(e.PVC("second"))
		second := e.CreatePod(e.Pod("second").PVC("second"))
		e.WaitUnschedulable(second)
		e.CreatePVsUnseen(e.LocalPV("elsewhere", "b").ClaimRef(e.Namespace, "first", ""))
		e.WaitBound("first", "elsewhere")
		p.handle.GetWaitingPod(p.first.UID).Reject(p.Name(), "refused by the test")
		e.WaitScheduled(second, "a")
	})
}
