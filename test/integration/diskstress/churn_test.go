// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskstress_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"stowage.dev/stowage/test/integration/fixture"
)

// pod is a pod that exists.
type pod struct {
	*corev1.Pod
	claims []*corev1.PersistentVolumeClaim
}

// churn creates the maximum number of pods, and then creates and deletes at random, for
// this duration.
func (s *stress) churn(d time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	s.fill()
	limit := flowcontrol.NewTokenBucketRateLimiter(pace, 1)
	for limit.Wait(ctx) == nil {
		s.moveIn()
		switch dice := s.random.IntN(12); {
		case dice < 6 && len(s.pods) < mostPods:
			s.create()
		case dice < 10:
			s.deleteOne(s.placed())
		case dice < 11:
			s.deleteOne(slices.Sorted(maps.Keys(s.pods)))
		default:
			s.leave(false)
		}
	}
}

// drain deletes pods that are placed until all others are placed too.
func (s *stress) drain() {
	s.t.Helper()
	limit := flowcontrol.NewTokenBucketRateLimiter(pace, 1)
	for {
		s.moveIn()
		placed := s.placed()
		if len(placed) == len(s.pods) {
			s.placedPods += len(placed)
			return
		}
		if len(placed) == 0 {
			s.leave(true)
			s.Wait(fmt.Sprintf("one of %d pods to be placed", len(s.pods)), func() bool { return len(s.placed()) > 0 })
			continue
		}
		if err := limit.Wait(s.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.deleteOne(placed)
		s.leave(false)
	}
}

// empty deletes all pods, which are placed and counted as such.
func (s *stress) empty() {
	s.t.Helper()
	s.Wait("the claims of all pods to be bound", func() bool {
		for name := range s.claims {
			if claim := s.SeenPVC(name); claim == nil || claim.Status.Phase != corev1.ClaimBound {
				return false
			}
		}
		return true
	})
	s.moveIn()
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		s.remove(name)
	}
	s.leave(true)
}

// placed are the names of the pods that have a node.
func (s *stress) placed() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		if seen := s.SeenPod(name); seen != nil && seen.Spec.NodeName != "" {
			names = append(names, name)
		}
	}
	return names
}

// fill creates the maximum number of pods, many at a time.
func (s *stress) fill() {
	s.t.Helper()
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(16)
	made := make([]*pod, mostPods)
	for i := range made {
		made[i] = s.next()
		group.Go(func() error { return s.store(ctx, made[i]) })
	}
	if err := group.Wait(); err != nil {
		s.t.Fatal(err)
	}
	for _, p := range made {
		s.add(p)
	}
}

func (s *stress) create() {
	s.t.Helper()
	p := s.next()
	if err := s.store(s.Context(), p); err != nil {
		s.t.Fatal(err)
	}
	s.add(p)
}

func (s *stress) add(p *pod) {
	s.pods[p.Name] = p
	for _, claim := range p.claims {
		s.claims[claim.Name] = claim.UID
	}
}

// next describes the next pod: it has one to four claims, of 1 to 3 MiB, of
// which one may be for a raw device. An empty node has volumes for any pod.
func (s *stress) next() *pod {
	s.created++
	s.Use([]string{fixture.DirectProfile, fixture.PVControllerProfile}[s.random.IntN(2)])
	name := fmt.Sprintf("pod-%d", s.created)
	made := &pod{}
	builder := s.Pod(name)
	device := s.random.IntN(20)
	for i := range 1 + s.random.IntN(4) {
		claim := s.PVC(fmt.Sprintf("%s-%d", name, i)).Class(s.files).Request(fmt.Sprintf("%dMi", 1+s.random.IntN(3)))
		if i == device {
			claim.Class(s.blocks).Block()
		}
		made.claims = append(made.claims, claim.Obj())
		builder.PVC(made.claims[i].Name)
	}
	made.Pod = builder.Obj()
	return made
}

// store creates a pod after its claims.
func (s *stress) store(ctx context.Context, p *pod) (err error) {
	for i, claim := range p.claims {
		if p.claims[i], err = s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	p.Pod, err = s.Client.CoreV1().Pods(s.Namespace).Create(ctx, p.Pod, metav1.CreateOptions{})
	return err
}

// deleteOne deletes one of the pods, in any state.
func (s *stress) deleteOne(names []string) {
	s.t.Helper()
	if len(names) == 0 {
		return
	}
	name := names[s.random.IntN(len(names))]
	if seen := s.SeenPod(name); seen == nil || seen.Spec.NodeName == "" {
		s.interrupted++
	} else {
		s.placedPods++
	}
	s.remove(name)
}

// remove deletes a pod and its claims, after their volumes have been used.
func (s *stress) remove(name string) {
	s.t.Helper()
	p := s.pods[name]
	delete(s.pods, name)
	for _, claim := range p.claims {
		delete(s.claims, claim.Name)
		s.moveOut(claim.UID)
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := s.Client.CoreV1().Pods(s.Namespace).Delete(s.Context(), name, now); err != nil {
		s.t.Fatal(err)
	}
	for _, claim := range p.claims {
		s.DeletePVC(claim.Name)
	}
}
