// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/loop"
)

// confirm checks with the API server what no precondition of a write covers: that the volume is
// lost; before a release, that the terms allow it and the claim is recreated; before a removal,
// that the tombstone exists, or that the terms allow it; before pods are deleted, that their claim is being deleted. Each
// informer may lag behind independently. The error is loop.ErrStale if a fact has changed.
func (c *Controller) confirm(ctx context.Context, f *volumeFacts, d rules.Decision) error {
	switch d.Do {
	case rules.DeleteVolume, rules.RemoveFinalizer:
		if err := c.confirmTombstone(ctx, f); err != nil {
			return err
		}
		return c.confirmLoss(ctx, f, d.Cause)
	case rules.BeginRelease, rules.DeleteClaim:
		if err := c.confirmLoss(ctx, f, d.Cause); err != nil {
			return err
		}
		return c.confirmRelease(ctx, f)
	case rules.AddTombstone:
		return c.confirmLoss(ctx, f, d.Cause)
	case rules.DeletePavVolume:
		if err := c.confirmLoss(ctx, f, d.Cause); err != nil {
			return err
		}
		return c.confirmGivingUp(ctx, f)
	case rules.DeletePods:
		return c.confirmClaimDeleted(ctx, f)
	default:
		return nil
	}
}

func (c *Controller) confirmLoss(ctx context.Context, f *volumeFacts, cause rules.Cause) error {
	node, err := c.readNode(f, live(ctx, c.Client.CoreV1().Nodes().Get))
	if err != nil {
		return err
	}
	now := rules.Facts{Now: f.Now, Node: node, Mark: f.Mark, Claim: f.Claim}
	if !cause.OfNode() {
		if now.ProvisionerSince, err = c.liveProvisionerSince(ctx, f.node); err != nil {
			return err
		}
		name := stowage.PageName(f.node, f.page)
		report, err := c.Reports.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get LocalDiskReport %s: %w", name, err)
		}
		now.Disk, _ = entryOf(report, f.volume)
		if now.Volume.Mark, err = c.liveMark(ctx, f.volume); err != nil {
			return err
		}
	}
	if rules.CauseOf(&now) != cause {
		return loop.ErrStale
	}
	if _, unwritten := rules.Since(&now, cause); unwritten {
		return loop.ErrStale
	}
	return nil
}

// liveMark returns the volume's mark of its disk from the API server.
func (c *Controller) liveMark(ctx context.Context, volume *corev1.PersistentVolume) (disk.Mark, error) {
	found, err := c.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, volume.Name).String(),
	})
	if err != nil {
		return disk.Unmarked, fmt.Errorf("list volume %s: %w", volume.Name, err)
	}
	for i := range found.Items {
		if found.Items[i].UID == volume.UID {
			return disk.Mark(found.Items[i].Annotations[wellknown.DiskAnnotation]), nil
		}
	}
	return disk.Unmarked, loop.ErrStale
}

// confirmRelease checks that the class still allows the release and that the claim is still
// recreated. The claim's version confirms its own annotations.
func (c *Controller) confirmRelease(ctx context.Context, f *volumeFacts) error {
	now, claim := f.Facts, *f.Claim
	now.Claim = &claim
	var err error
	if claim.Recreator, claim.Obstacle, err = c.liveRecreator(ctx, f); err != nil {
		return err
	}
	if now.Terms, err = c.readTerms(f, live(ctx, c.Client.StorageV1().StorageClasses().Get)); err != nil {
		return err
	}
	if do := rules.Decide(&now).Do; do != rules.BeginRelease && do != rules.DeleteClaim {
		return loop.ErrStale
	}
	return nil
}

// confirmGivingUp checks that the class of a provisioned volume still allows to give it up.
func (c *Controller) confirmGivingUp(ctx context.Context, f *volumeFacts) error {
	now := f.Facts
	var err error
	if now.Terms, err = c.readTerms(f, live(ctx, c.Client.StorageV1().StorageClasses().Get)); err != nil {
		return err
	}
	if rules.Decide(&now).Do != rules.DeletePavVolume {
		return loop.ErrStale
	}
	return nil
}

// liveRecreator returns what recreates the claim, from the API server.
func (c *Controller) liveRecreator(ctx context.Context, f *volumeFacts) (*rules.Recreator, string, error) {
	if f.Claim.Recreator.ByClaim {
		return f.Claim.Recreator, "", nil
	}
	namespace, name := f.claim.Namespace, f.Claim.Recreator.Name
	if f.Claim.Recreator.ByPod {
		pod, err := get("pod "+namespace+"/"+name, live(ctx, c.Client.CoreV1().Pods(namespace).Get), name)
		if err != nil {
			return nil, "", err
		}
		recreator, obstacle := recreatingPod(ephemeralOwner(f.claim), one(pod), f.Node.Lost())
		return recreator, obstacle, nil
	}
	set, err := get("StatefulSet "+namespace+"/"+name, live(ctx, c.Client.AppsV1().StatefulSets(namespace).Get), name)
	if err != nil {
		return nil, "", err
	}
	recreator, obstacle := recreatingSet(f.claim, one(set))
	return recreator, obstacle, nil
}

// one returns a list of the object, without it if it is nil.
func one[T any](object *T) []*T {
	return slices.DeleteFunc([]*T{object}, func(o *T) bool { return o == nil })
}

// confirmClaimDeleted checks that the claim of the pods is gone or being deleted, and not
// recreated.
func (c *Controller) confirmClaimDeleted(ctx context.Context, f *volumeFacts) error {
	ref := f.volume.Spec.ClaimRef
	claim, err := get("claim "+ref.Namespace+"/"+ref.Name, live(ctx, c.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get), ref.Name)
	if err == nil && claim != nil && (claim.UID != ref.UID || claim.DeletionTimestamp == nil) {
		err = loop.ErrStale
	}
	return err
}
