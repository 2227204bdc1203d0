// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// site is a cluster with claims that wait, and as many volumes.
type site struct {
	*fixture.Env
	claims int
}

func newSite(t *testing.T, claims int) *site {
	t.Helper()
	e := fixture.NewOn(t, audit.Config())
	e.Do(func(ctx context.Context) error { return install(ctx, e.Cluster) })
	e.AddNodes(e.Node("n1"))
	var volumes []*builders.PV
	for i := range claims {
		volumes = append(volumes, e.LocalPV(fmt.Sprintf("v%03d", i), "n1").Capacity("1Gi"))
	}
	e.CreatePVs(volumes...)
	for i := range claims {
		e.CreatePVC(now(e, fmt.Sprintf("c%03d", i)).Request("1Gi"))
	}
	return &site{e, claims}
}

// start starts a controller.
func (s *site) start(name, settings string) *cluster.Process {
	s.T.Helper()
	process, err := fixture.StartController(s.Cluster, binary, name, settings)
	if err != nil {
		s.T.Fatal(err)
	}
	return process
}

// bound returns how many claims are bound.
func (s *site) bound() (bound int) {
	for i := range s.claims {
		if seen := s.SeenPVC(fmt.Sprintf("c%03d", i)); seen != nil && plan.IsBound(seen) {
			bound++
		}
	}
	return bound
}

// waitMore waits until more claims are bound, or all.
func (s *site) waitMore(more int) {
	s.T.Helper()
	want := min(s.bound()+more, s.claims)
	s.Wait(fmt.Sprintf("%d claims to be bound", want), func() bool { return s.bound() >= want })
	s.T.Logf("%d claims are bound", s.bound())
}

func (s *site) kill(processes ...*cluster.Process) {
	s.T.Helper()
	for _, process := range processes {
		if err := process.Kill(); err != nil {
			s.T.Fatal(err)
		}
	}
}

func (s *site) signal(process *cluster.Process, signal syscall.Signal) {
	s.T.Helper()
	if err := process.Signal(signal); err != nil {
		s.T.Fatal(err)
	}
}

// TestControllersKilled: two controllers bind the same claims, as if an old leader still wrote. They
// are killed meanwhile, and leave no claim that the next ones cannot bind.
func TestControllersKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, 60)
	for round := 1; s.bound() < s.claims; round++ {
		first, second := s.start(fmt.Sprintf("controller-%d-1", round), settings), s.start(fmt.Sprintf("controller-%d-2", round), settings)
		s.waitMore(1)
		s.kill(first, second)
	}
	s.NoVolumeTwice()
}

// waitLeader waits until another controller than that leads, and returns its identity.
func (s *site) waitLeader(not string) string {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), s.Timeout)
	defer cancel()
	leases, err := s.Client.CoordinationV1().Leases("stowage-system").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=stowage-controller"})
	if err != nil {
		s.T.Fatal(err)
	}
	defer leases.Stop()
	for event := range leases.ResultChan() {
		if lease, ok := event.Object.(*coordinationv1.Lease); ok && ptr.Deref(lease.Spec.HolderIdentity, not) != not {
			return *lease.Spec.HolderIdentity
		}
	}
	s.T.Fatalf("no other controller leads, after %s", s.Timeout)
	return ""
}

// TestLeaderLost: the leader hangs for longer than its lease while it binds, so that its replica
// takes over. That is killed while it binds; then the first one continues, and ends; a third one takes
// over.
func TestLeaderLost(t *testing.T) {
	t.Parallel()
	const elected = binds + "clientConnection: {qps: 40, burst: 5}\nleaderElection: {leaseDuration: 6s, renewDeadline: 5s, retryPeriod: 1s}\n"
	s := newSite(t, 100)
	hangs := s.start("hangs", elected)
	first := s.waitLeader("")
	killed := s.start("killed", elected)
	s.waitMore(1)
	s.signal(hangs, syscall.SIGSTOP)
	s.waitLeader(first)
	s.waitMore(10)
	s.kill(killed)
	hangs.Expect() // it observes that it has lost the lease
	s.signal(hangs, syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(s.Context(), s.Timeout)
	defer cancel()
	select {
	case <-hangs.Done():
	case <-ctx.Done():
		t.Fatal("the controller has lost its lease and works on")
	}
	last := s.start("last", elected)
	s.waitMore(s.claims)
	s.NoVolumeTwice()
	s.kill(last)
}
