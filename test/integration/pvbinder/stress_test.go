// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestStress: claims and volumes are created and deleted at random while the controller is killed again
// and again. No claim is Lost at any time; in the end no volume has two claims, and no claim waits that
// a free volume fits.
func TestStress(t *testing.T) {
	t.Parallel()
	seed := campaign.Begin(t)
	s := &stress{Rand: rand.New(rand.NewPCG(seed, 0)), e: fixture.NewOn(t, config())}
	s.volume, s.claim = immediate(s.e, noProvisioner)
	lost := s.watchLost()
	pace := flowcontrol.NewTokenBucketRateLimiter(campaign.Scale[float32](2, stressRounds/180.), 1)
	for range campaign.Scale(3, stressRounds/roundsPerKill) {
		process, err := fixture.StartBinder(s.e.Context(), s.e.Cluster)
		if err != nil {
			t.Fatal(err)
		}
		for range roundsPerKill {
			if err := pace.Wait(s.e.Context()); err != nil {
				t.Fatal(err)
			}
			s.round()
		}
		s.e.NoVolumeTwice()
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fixture.StartBinder(s.e.Context(), s.e.Cluster); err != nil {
		t.Fatal(err)
	}
	s.e.Wait("all claims that a volume fits to be bound", s.done)
	s.e.NoVolumeTwice()
	if n := lost.Load(); n > 0 {
		t.Errorf("%d times a claim was Lost", n)
	}
	t.Logf("%d claims and %d volumes were created, %d claims are bound", s.claims, s.volumes, len(s.e.Bindings()))
}

// stressRounds is how many rounds full strength has, in 180 s.
const (
	stressRounds  = 100
	roundsPerKill = 4
)

type stress struct {
	*rand.Rand
	e               *fixture.Env
	volume          func(string) *builders.PV
	claim           func(string) *builders.PVC
	claims, volumes int // created
}

// watchLost counts updates by which a claim becomes Lost, until the test ends.
func (s *stress) watchLost() *atomic.Int64 {
	lost := new(atomic.Int64)
	factory := informers.NewSharedInformerFactoryWithOptions(s.e.Client, 0, informers.WithNamespace(s.e.Namespace))
	_, err := factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			was, is := before.(*corev1.PersistentVolumeClaim).Status.Phase, after.(*corev1.PersistentVolumeClaim).Status.Phase
			if was != is && is == corev1.ClaimLost {
				lost.Add(1)
			}
		},
	})
	if err != nil {
		s.e.T.Fatal(err)
	}
	factory.Start(s.e.Context().Done())
	s.e.T.Cleanup(factory.Shutdown)
	factory.WaitForCacheSync(s.e.Context().Done())
	return lost
}

func (s *stress) size() string { return fmt.Sprintf("%dGi", 1+s.IntN(4)) }

// round creates claims and volumes, and deletes others or makes them free, all at a time.
func (s *stress) round() {
	core := s.e.Client.CoreV1()
	var all []func(context.Context) error
	for range 10 {
		s.claims++
		claim := s.claim(fmt.Sprintf("c%d", s.claims)).Request(s.size()).Obj()
		all = append(all, func(ctx context.Context) error {
			_, err := core.PersistentVolumeClaims(s.e.Namespace).Create(ctx, claim, metav1.CreateOptions{})
			return err
		})
	}
	for range 6 {
		s.volumes++
		volume := s.volume(fmt.Sprintf("v%d", s.volumes)).Capacity(s.size()).Obj()
		all = append(all, func(ctx context.Context) error {
			_, err := core.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
			return err
		})
	}
	for range 5 {
		reuse := s.IntN(2) == 0
		claim, volume := fmt.Sprintf("c%d", 1+s.IntN(s.claims)), s.e.Name(fmt.Sprintf("v%d", 1+s.IntN(s.volumes)))
		all = append(all, func(ctx context.Context) error {
			return ignoreChanged(core.PersistentVolumeClaims(s.e.Namespace).Delete(ctx, claim, metav1.DeleteOptions{}))
		}, func(ctx context.Context) error {
			found, err := core.PersistentVolumes().Get(ctx, volume, metav1.GetOptions{})
			if err != nil || found.Status.Phase == corev1.VolumeBound {
				return ignoreChanged(err)
			}
			if reuse && found.Status.Phase == corev1.VolumeReleased {
				found.Spec.ClaimRef = nil
				_, err := core.PersistentVolumes().Update(ctx, found, metav1.UpdateOptions{})
				return ignoreChanged(err)
			}
			return ignoreChanged(core.PersistentVolumes().Delete(ctx, volume, metav1.DeleteOptions{}))
		})
	}
	s.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	s.e.Do(func(ctx context.Context) error {
		return await.Each(ctx, len(all), func(ctx context.Context, i int) error { return all[i](ctx) })
	})
}

func ignoreChanged(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
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
