// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestStress: claims and volumes are created and deleted while the controller is killed again and again.
// In the end no volume has two claims, no claim is Lost, and none waits for which a volume fits.
func TestStress(t *testing.T) {
	t.Parallel()
	seed := campaign.Begin(t)
	s := &stress{Rand: rand.New(rand.NewPCG(seed, 0)), e: fixture.NewOn(t, config())}
	s.volume, s.claim = immediate(s.e, noProvisioner)
	for range campaign.Scale(3, 20) {
		process, err := fixture.StartBinder(s.e.Context(), s.e.Cluster)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			s.round()
		}
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fixture.StartBinder(s.e.Context(), s.e.Cluster); err != nil {
		t.Fatal(err)
	}
	s.e.Wait("all claims that a volume fits to be bound", s.done)
	s.e.NoVolumeTwice()
	t.Logf("%d claims and %d volumes were created, %d claims are bound", s.claims, s.volumes, len(s.e.Bindings()))
}

type stress struct {
	*rand.Rand
	e               *fixture.Env
	volume          func(string) *builders.PV
	claim           func(string) *builders.PVC
	claims, volumes int // created
}

func (s *stress) size() string { return fmt.Sprintf("%dGi", 1+s.IntN(4)) }

// round creates claims and volumes, and deletes others, all at a time.
func (s *stress) round() {
	core := s.e.Client.CoreV1()
	var all []func(context.Context) error
	for range 12 {
		s.claims++
		claim := s.claim(fmt.Sprintf("c%d", s.claims)).Request(s.size()).Obj()
		all = append(all, func(ctx context.Context) error {
			_, err := core.PersistentVolumeClaims(s.e.Namespace).Create(ctx, claim, metav1.CreateOptions{})
			return err
		})
	}
	for range 8 {
		s.volumes++
		volume := s.volume(fmt.Sprintf("v%d", s.volumes)).Capacity(s.size()).Obj()
		all = append(all, func(ctx context.Context) error {
			_, err := core.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
			return err
		})
	}
	for range 6 {
		claim, volume := fmt.Sprintf("c%d", 1+s.IntN(s.claims)), s.e.Name(fmt.Sprintf("v%d", 1+s.IntN(s.volumes)))
		all = append(all, func(ctx context.Context) error {
			return ignoreNotFound(core.PersistentVolumeClaims(s.e.Namespace).Delete(ctx, claim, metav1.DeleteOptions{}))
		}, func(ctx context.Context) error {
			found, err := core.PersistentVolumes().Get(ctx, volume, metav1.GetOptions{})
			if err != nil || found.Status.Phase == corev1.VolumeBound {
				return ignoreNotFound(err)
			}
			return ignoreNotFound(core.PersistentVolumes().Delete(ctx, volume, metav1.DeleteOptions{}))
		})
	}
	s.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	s.e.Do(func(ctx context.Context) error {
		return await.Each(ctx, len(all), func(ctx context.Context, i int) error { return all[i](ctx) })
	})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// done reports whether every claim is bound that a free volume fits, and no volume waits for a phase.
func (s *stress) done() bool {
	var free []*match.Volume
	for _, volume := range s.e.SeenPVs() {
		switch volume.Status.Phase {
		case corev1.VolumePending:
			return false
		case corev1.VolumeAvailable:
			if volume.Spec.ClaimRef != nil {
				return false
			}
			free = append(free, match.NewVolume(volume))
		}
	}
	for i := range s.claims {
		claim := s.e.SeenPVC(fmt.Sprintf("c%d", i+1))
		if claim == nil || claim.Status.Phase == corev1.ClaimBound {
			continue
		}
		request, err := match.NewRequest(claim)
		if err != nil {
			s.e.T.Fatal(err)
		}
		if slices.ContainsFunc(free, request.Matches) {
			return false
		}
	}
	return true
}
