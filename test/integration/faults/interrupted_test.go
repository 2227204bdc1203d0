// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// claimsPerPod of the pods whose binding is interrupted. In Direct mode each
// claim takes four writes, in PVController mode one.
const claimsPerPod = 3

var errStopped = errors.New("the scheduler has been stopped")

// TestBinderStoppedBetweenWrites: for every n, a pod whose scheduler stops
// after the n-th write to volumes and claims, permanently, in any order of the
// writes of a step come. Another scheduler takes over.
func TestBinderStoppedBetweenWrites(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, profile fixture.Profile) {
		e := fixture.New(t)
		e.Timeout = waitTimeout
		s := newInterruptions(e, profile)
		s.prepare()
		s.interrupt()
		s.takeOver()
		s.verify()
	})
}

// TestBinderStoppedWhileProvisioning is the same with one claim of each pod that
// is provisioned.
func TestBinderStoppedWhileProvisioning(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, profile fixture.Profile) {
		e := fixture.New(t)
		e.Timeout = waitTimeout
		stop := provision(e)
		defer stop()
		s := newInterruptions(e, profile)
		s.provisioner = silent
		s.prepare()
		s.interrupt()
		s.takeOver()
		s.verify()
	})
}

// interruptions are one pod for each n, each with its own class: enough
// volumes on two nodes.
type interruptions struct {
	*fixture.Env
	profile fixture.Profile
	// provisioner of the last claim of each pod; empty: none.
	provisioner string
	pods        []*v1.Pod
	next        *fixture.Scheduler // the one that takes over

	mu       sync.Mutex
	passed   []int  // writes let through, by pod
	answered []int  // writes that the API server has carried out
	refused  []bool // whether a write has been refused
	reached  chan struct{}
}

func newInterruptions(e *fixture.Env, profile fixture.Profile) *interruptions {
	count := 4*claimsPerPod + 1
	if profile.Args != nil {
		count = claimsPerPod + 1
	}
	profile.Name = e.Name("interrupted")
	return &interruptions{
		Env: e, profile: profile,
		passed: make([]int, count), answered: make([]int, count), refused: make([]bool, count),
		reached: make(chan struct{}),
	}
}

func (s *interruptions) prepare() {
	s.AddNodes(s.Node("a"), s.Node("b"))
	s.Use(s.profile.Name)
	var volumes []*builders.PV
	for n := range s.passed {
		class := s.CreateClass(s.Class(fmt.Sprintf("class-%d", n))).Name
		for i := range claimsPerPod {
			size := fmt.Sprintf("%dGi", i+1)
			if s.provisioner != "" && i == claimsPerPod-1 {
				made := s.CreateClass(s.Class(fmt.Sprintf("made-%d", n)).Provisioner(s.provisioner)).Name
				s.CreatePVC(s.PVC(fmt.Sprintf("claim-%d-%d", n, i)).Class(made).Request(size))
				continue
			}
			s.CreatePVC(s.PVC(fmt.Sprintf("claim-%d-%d", n, i)).Class(class).Request(size))
			for _, node := range []string{"a", "b"} {
				volumes = append(volumes, s.LocalPV(fmt.Sprintf("volume-%d-%d-%s", n, i, node), node).Class(class).Capacity(size))
			}
		}
	}
	s.CreatePVs(volumes...)
}

// interrupt creates the pods, waits until the scheduler has made all writes that it may
// for each, and stops it.
func (s *interruptions) interrupt() {
	s.T.Helper()
	tap := fixture.NewTap()
	tap.Before(func(r fixture.Request) bool { return r.Writes() && s.of(r) >= 0 }, s.before)
	tap.After(volumeWrite, s.after)
	doomed := s.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{s.profile}, Tap: tap, MaxBackoffSeconds: 60})
	for n := range s.passed {
		pod := s.Pod(fmt.Sprintf("pod-%d", n))
		for i := range claimsPerPod {
			pod.PVC(fmt.Sprintf("claim-%d-%d", n, i))
		}
		s.pods = append(s.pods, s.CreatePod(pod))
	}
	timeout := time.NewTimer(s.Timeout)
	defer timeout.Stop()
	select {
	case <-s.reached:
	case <-timeout.C:
		s.T.Fatalf("writes let through %v, carried out %v, refused %v\n%s", s.passed, s.answered, s.refused, s.Dump())
	}
	doomed.Stop()
}

// takeOver starts another scheduler under the same name, which places all pods.
func (s *interruptions) takeOver() {
	s.T.Helper()
	s.next = s.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{s.profile}})
	for _, pod := range s.pods {
		s.WaitScheduled(pod)
	}
}

// verify is takeOver's second part, beside a PV controller: it writes the statuses of claims that
// were bound when the first scheduler stopped.
func (s *interruptions) verify() {
	s.T.Helper()
	wantSettled(s.Env, s.pods...)
	wantNothingReserved(s.Env, s.next)
	controllerHasSeenAll(s.Env, "afterwards")
	wantConsistent(s.Env)
}

// of is the index of the request's pod, -1 for none.
func (s *interruptions) of(r fixture.Request) int {
	parts := strings.Split(strings.TrimPrefix(r.Name, s.Namespace+"-"), "-")
	if len(parts) < 2 || r.Namespace != "" && r.Namespace != s.Namespace {
		return -1
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n >= len(s.passed) {
		return -1
	}
	return n
}

func volumeWrite(r fixture.Request) bool {
	return r.Verb == "update" && (r.Resource == "persistentvolumes" || r.Resource == "persistentvolumeclaims")
}

// before lets n writes of pod n pass. All later ones fail, and so does the
// pod's own binding.
func (s *interruptions) before(_ context.Context, r fixture.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.of(r)
	if volumeWrite(r) && s.passed[n] < n {
		s.passed[n]++
		return nil
	}
	s.refused[n] = true
	s.look()
	return errStopped
}

func (s *interruptions) after(_ context.Context, r fixture.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.of(r); n >= 0 {
		s.answered[n]++
		s.look()
	}
	return nil
}

// look checks that the scheduler made all allowed writes for every pod. Where a PV controller
// completes bindings, there may be fewer writes than allowed; then
// the pod's own binding is refused.
func (s *interruptions) look() {
	for n := range s.passed {
		if !s.refused[n] && s.answered[n] < n {
			return
		}
	}
	select {
	case <-s.reached:
	default:
		close(s.reached)
	}
}
