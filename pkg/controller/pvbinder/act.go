// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// maxWrites bounds the writes of one reconciliation. A binding takes four.
const maxWrites = 8

// syncClaim writes what the rules require of a claim.
func (c *Controller) syncClaim(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, nil
	}
	for range maxWrites {
		claim := c.Cache.Claim(namespace, name)
		if claim == nil {
			c.matcher.drop(key)
			c.recorded.drop(claimKey(key))
			return 0, nil
		}
		d, err := c.decideClaim(ctx, claim)
		if err != nil {
			return 0, err
		}
		if err := c.act(ctx, d); err != nil {
			c.matcher.drop(key) // its volume may have changed
			return 0, err
		}
		c.count(claim, d)
		if later := c.record(claim, d); d.Do == rules.None {
			return later, nil
		}
	}
	return 0, loop.ErrStale
}

// count counts a claim that was bound or lost.
func (c *Controller) count(before *v1.PersistentVolumeClaim, d rules.Decision) {
	if d.Do != rules.WriteClaimStatus || d.Claim.Status.Phase == before.Status.Phase {
		return
	}
	switch d.Claim.Status.Phase {
	case v1.ClaimLost:
		metrics.CountInPlaceClaim(metrics.InPlaceLost)
	case v1.ClaimBound:
		metrics.CountInPlaceClaim(metrics.InPlaceBound)
		if before.Status.Phase != v1.ClaimLost && !claims.LateBinding(c.classOf(match.ClaimClass(before))) {
			metrics.ObserveInPlaceBind(time.Since(before.CreationTimestamp.Time))
		}
	}
}

// decideClaim decides about a claim, with the reads that the rules require.
func (c *Controller) decideClaim(ctx context.Context, claim *v1.PersistentVolumeClaim) (rules.Decision, error) {
	f := c.claimFacts(claim)
	matching := false
	for {
		var err error
		switch d := rules.DecideClaim(f); d.Do {
		case rules.Match:
			matching = true
			if f.Match, f.Matched = c.matcher.choice(claim); !f.Matched {
				return rules.Decision{Do: rules.None}, nil // the matcher enqueues the claim
			}
		case rules.ReadVolume:
			f.VolumeRead = true
			f.Volume, err = found(c.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{}))
		case rules.ReadClass:
			f.ClassRead = true
			f.Class, err = found(c.Client.StorageV1().StorageClasses().Get(ctx, match.ClaimClass(claim), metav1.GetOptions{}))
		default:
			if !matching {
				c.matcher.drop(keyOf(claim))
			}
			return d, nil
		}
		if err != nil {
			return rules.Decision{}, fmt.Errorf("confirm the state of claim %s: %w", keyOf(claim), err)
		}
	}
}

// syncVolume writes what the rules require of a volume.
func (c *Controller) syncVolume(ctx context.Context, name string) (time.Duration, error) {
	for range maxWrites {
		volume := c.Cache.Volume(name)
		if volume == nil {
			c.recorded.drop(volumeKey(name))
			return 0, nil
		}
		f := c.volumeFacts(volume)
		d := rules.DecideVolume(f)
		if d.Do == rules.ReadClaim {
			claim, err := found(c.Client.CoreV1().PersistentVolumeClaims(volume.Spec.ClaimRef.Namespace).Get(ctx, volume.Spec.ClaimRef.Name, metav1.GetOptions{}))
			if err != nil {
				return 0, fmt.Errorf("confirm the claim of volume %s: %w", name, err)
			}
			f.Claim, f.ClaimRead = claim, true
			d = rules.DecideVolume(f)
		}
		if err := c.act(ctx, d); err != nil {
			return 0, err
		}
		if later := c.record(volume, d); d.Do == rules.None || d.Do == rules.DecideOnClaim {
			return later, nil
		}
	}
	return 0, loop.ErrStale
}

// act takes an action. Events follow of what other clients have written meanwhile.
func (c *Controller) act(ctx context.Context, d rules.Decision) (err error) {
	core, options := c.Client.CoreV1(), metav1.UpdateOptions{FieldManager: manager}
	switch d.Do {
	case rules.WriteVolume:
		err = c.wroteVolume(core.PersistentVolumes().Update(ctx, d.Volume, options))
	case rules.WriteVolumeStatus:
		err = c.wroteVolume(core.PersistentVolumes().UpdateStatus(ctx, d.Volume, options))
	case rules.WriteClaim:
		err = c.wroteClaim(core.PersistentVolumeClaims(d.Claim.Namespace).Update(ctx, d.Claim, options))
	case rules.WriteClaimStatus:
		err = c.wroteClaim(core.PersistentVolumeClaims(d.Claim.Namespace).UpdateStatus(ctx, d.Claim, options))
	case rules.DecideOnClaim:
		c.claims.Add(keyOf(d.Claim))
		return nil
	default:
		return nil
	}
	switch {
	case apierrors.IsConflict(err):
		metrics.CountInPlaceConflict(resourceOf(d))
		return loop.ErrStale
	case apierrors.IsNotFound(err):
		return loop.ErrStale
	case err != nil:
		return fmt.Errorf("%s: %w", d.Do, err)
	}
	logger := klog.FromContext(ctx).V(4)
	if d.Volume != nil {
		logger.Info("Wrote a volume", logkeys.Volume, klog.KObj(d.Volume), "action", d.Do, "phase", d.Volume.Status.Phase)
	} else {
		logger.Info("Wrote a claim", logkeys.Claim, klog.KObj(d.Claim), "action", d.Do, "phase", d.Claim.Status.Phase)
	}
	return nil
}

// resourceOf returns the resource that a decision writes.
func resourceOf(d rules.Decision) string {
	if d.Volume != nil {
		return "persistentvolumes"
	}
	return "persistentvolumeclaims"
}

func (c *Controller) wroteVolume(volume *v1.PersistentVolume, err error) error {
	if err == nil {
		c.Cache.ApplyVolume(volume)
		c.matcher.changed(volume)
	}
	return err
}

func (c *Controller) wroteClaim(claim *v1.PersistentVolumeClaim, err error) error {
	if err == nil {
		c.Cache.ApplyClaim(claim)
	}
	return err
}

// found returns an object that was read, nil if it does not exist.
func found[T any](object *T, err error) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return object, nil
}
