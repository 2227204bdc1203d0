// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestComponentsAway has its own cluster, whose components it stops:
// the PV controller after it has made the volumes Available, and later the API
// server and etcd while many pods are being placed.
func TestComponentsAway(t *testing.T) {
	t.Parallel()
	campaign.Begin(t)
	e := fixture.NewOn(t, fixture.DefaultConfig())
	scenarios := aloneScenarios(e)
	// The scenarios of a part run in parallel: most wait for what the scheduler does after a time.
	part := func(t *testing.T, name string, of func(*scenario) func()) {
		var ended sync.Map // the scenarios that can continue
		t.Run(name, func(t *testing.T) {
			for title, s := range scenarios {
				t.Run(title, func(t *testing.T) {
					t.Parallel()
					s.T = t
					defer func() { s.T = e.T }()
					of(s)()
					if !t.Failed() {
						ended.Store(title, nil)
					}
				})
			}
		})
		maps.DeleteFunc(scenarios, func(title string, _ *scenario) bool {
			_, ok := ended.Load(title)
			return !ok
		})
	}
	part(t, "before", func(s *scenario) func() { return s.before })
	within(e, e.PVController().Stop)
	part(t, "without PV controller", func(s *scenario) func() { return s.during })
	within(e, e.PVController().Start)
	part(t, "PV controller back", func(s *scenario) func() { return s.after })

	for name, away := range map[string]func(*fixture.Env){"API server restarted": restartAPIServer, "etcd hangs": hangEtcd} {
		t.Run(name, func(t *testing.T) { flood(e.Sibling(t), away) })
	}
}

// aloneScenarios run without PV controller. Their Envs are the parent
// test's: they outlive the parts.
func aloneScenarios(e *fixture.Env) map[string]*scenario {
	direct, controller := fixture.Profile{}, fixture.Profile{Args: fixture.PVControllerArgs()}
	scenarios := map[string]*scenario{}
	add := func(name string, profile fixture.Profile, run func(*scenario)) {
		s := &scenario{Env: e.Sibling(e.T), profile: profile, alone: true}
		run(s)
		scenarios[name] = s
	}
	for name, run := range vanishing {
		add(name, direct, run)
	}
	for name, run := range conflicts {
		add(name, direct, run)
	}
	for name, at := range directWrites {
		add("labelled meanwhile: "+name, direct, labelledBefore(at))
	}
	add("bind timeout", direct, bindTimeout)
	add("Direct binds completely", direct, bindsCompletely)
	add("binder stopped between writes, Direct", direct, func(s *scenario) {
		i := newInterruptions(s.Env, direct)
		s.before, s.after = i.prepare, i.verify
		s.during = func() { i.interrupt(); i.takeOver() } // or the PV controller completes what is half-made
	})
	add("binder stopped between writes, PVController", controller, func(s *scenario) {
		i := newInterruptions(s.Env, controller)
		s.before, s.during = i.prepare, i.interrupt
		s.after = func() { i.takeOver(); i.verify() }
	})
	return scenarios
}

// bindsCompletely: only the scheduler binds, including statuses, and the PV
// controller corrects nothing when it is back.
func bindsCompletely(s *scenario) {
	const pods = 10
	var left map[string]any
	s.before = func() {
		s.AddNodes(s.Node("a"), s.Node("b"))
		var volumes []*builders.PV
		for i := range pods {
			for _, node := range []string{"a", "b"} {
				volumes = append(volumes, s.LocalPV(fmt.Sprintf("%s-%d", node, i), node).Capacity("2Gi"))
			}
		}
		s.CreatePVs(volumes...)
	}
	s.during = func() {
		scheduler, _ := s.start()
		var all []*v1.Pod
		for i := range pods {
			one, two := fmt.Sprintf("one-%d", i), fmt.Sprintf("two-%d", i)
			s.CreatePVC(s.PVC(one))
			s.CreatePVC(s.PVC(two))
			all = append(all, s.CreatePod(s.Pod(fmt.Sprintf("pod-%d", i)).PVC(one, two)))
		}
		wantSettled(s.Env, all...)
		wantNothingReserved(s.Env, scheduler)
		for _, pod := range all {
			for _, name := range claimsOf(pod) {
				claim := s.SeenPVC(name)
				if size := claim.Status.Capacity.Storage().String(); size != "2Gi" || len(claim.Status.AccessModes) == 0 {
					s.T.Errorf("claim %s has status %+v, want the volume's capacity and access modes", name, claim.Status)
				}
			}
		}
		left = written(s.Env)
	}
	s.after = func() {
		controllerHasSeenAll(s.Env, "afterwards")
		now := written(s.Env)
		for name := range now {
			if left[name] == nil {
				delete(now, name)
			}
		}
		if diff := cmp.Diff(left, now); diff != "" {
			s.T.Errorf("the PV controller had to correct (-written +corrected):\n%s", diff)
		}
		wantConsistent(s.Env)
	}
}

// written is the API server's state of the Env's claims and volumes, without
// fields that each write changes.
func written(e *fixture.Env) map[string]any {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	claims, err := e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.T.Fatal(err)
	}
	found := map[string]any{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		claim.ManagedFields, claim.ResourceVersion = nil, ""
		claim.Status.Conditions = nil // lists its users
		found["claim "+claim.Name] = claim
		volume, err := e.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			e.T.Fatal(err)
		}
		volume.ManagedFields, volume.ResourceVersion, volume.Status.LastPhaseTransitionTime = nil, "", nil
		found["volume "+volume.Name] = volume
	}
	return found
}

// floodPods is how many pods are created at once; they have two claims each.
var floodPods = campaign.Scale(30, 300)

// flood creates pods, calls away when a part of them has been placed,
// and expects all placed in the end.
func flood(e *fixture.Env, away func(*fixture.Env)) {
	e.T.Helper()
	e.Timeout = waitTimeout
	s := e.Start(fixture.SchedulerOptions{MaxBackoffSeconds: 1})
	addNodes(e, 10)
	addVolumes(e, 10, 3*floodPods)
	pods := createFlood(e, s.Name(), floodPods)
	e.Wait("a fifth of the pods to be placed", func() bool { return scheduled(e, pods) >= floodPods/5 })
	away(e)
	wantSettled(e, pods...)
	wantNothingReserved(e, s)
}

// createFlood creates pods of the profile with two claims each.
func createFlood(e *fixture.Env, profile string, count int) []*v1.Pod {
	e.T.Helper()
	e.Use(profile)
	pods := make([]*v1.Pod, count)
	for i := range pods {
		one, two := fmt.Sprintf("one-%d", i), fmt.Sprintf("two-%d", i)
		e.CreatePVC(e.PVC(one))
		e.CreatePVC(e.PVC(two))
		pods[i] = e.CreatePod(e.Pod(fmt.Sprintf("pod-%d", i)).PVC(one, two))
	}
	return pods
}

func restartAPIServer(e *fixture.Env) {
	e.T.Helper()
	within(e, e.Cluster.APIServer().Restart)
}

// within limits the time of a component's start or stop.
func within(e *fixture.Env, do func(context.Context) error) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), waitTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		e.T.Fatal(err)
	}
}

// hangEtcd suspends etcd until a write of the test has timed out.
func hangEtcd(e *fixture.Env) {
	e.T.Helper()
	etcd := e.Cluster.Etcd().Process()
	if err := etcd.Signal(syscall.SIGSTOP); err != nil {
		e.T.Fatal(err)
	}
	waitsInVain := false
	for giveUp := time.Now().Add(e.Timeout); !waitsInVain && time.Now().Before(giveUp); {
		waitsInVain = errors.Is(write(e, 3*time.Second), context.DeadlineExceeded)
	}
	if !waitsInVain {
		e.T.Error("writes went through while etcd was stopped")
	}
	if err := etcd.Signal(syscall.SIGCONT); err != nil {
		e.T.Fatal(err)
	}
}

// write stores anything.
func write(e *fixture.Env, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(e.Context(), timeout)
	defer cancel()
	_, err := e.Client.CoreV1().ConfigMaps(e.Namespace).Create(ctx,
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "in-vain-"}}, metav1.CreateOptions{})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
