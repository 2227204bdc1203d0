// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// confirm asks the API server whether the volume is lost; whether its claim is to be
// released, and made again, where it is to go; whether the volume has a tombstone, where
// that is; and, where pods are, whether their claim is. The informers may be behind, each
// by as much as it likes. All else that a decision rests on is confirmed by the
// preconditions of the writes. The error is errAgain if something is not so any more.
func (c *Controller) confirm(ctx context.Context, g *gathered, d rules.Decision) error {
	switch d.Do {
	case rules.Remove, rules.LetGo:
		if err := c.confirmBuried(ctx, g); err != nil {
			return err
		}
		return c.confirmLoss(ctx, g, d.Cause)
	case rules.Begin, rules.DeleteClaim:
		if err := c.confirmLoss(ctx, g, d.Cause); err != nil {
			return err
		}
		return c.confirmRelease(ctx, g)
	case rules.Bury:
		return c.confirmLoss(ctx, g, d.Cause)
	case rules.DeletePods:
		return c.confirmClaimGoes(ctx, g)
	default:
		return nil
	}
}

func (c *Controller) confirmLoss(ctx context.Context, g *gathered, cause rules.Cause) error {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, g.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = nil, nil
	}
	if err != nil {
		return unavailable("get node "+g.node, err)
	}
	live := rules.Facts{Now: g.Now, Node: c.nodeState(node), Mark: g.Mark, Claim: g.Claim}
	if !cause.OfNode() {
		if live.AgentSince, err = c.liveAgentSince(ctx, g.node); err != nil {
			return err
		}
		name := stowage.PageName(g.node, g.page)
		report, err := c.Reports.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return unavailable("get LocalDiskReport "+name, err)
		}
		live.Disk, _ = entryOf(report, g.volume)
		if live.Volume.Mark, err = c.liveMark(ctx, g.volume); err != nil {
			return err
		}
	}
	if rules.CauseOf(&live) != cause {
		return errAgain
	}
	if _, anew := rules.Since(&live, cause); anew {
		return errAgain
	}
	return nil
}

// liveMark is what the volume says of its disk, as the API server has it.
func (c *Controller) liveMark(ctx context.Context, volume *corev1.PersistentVolume) (disk.Mark, error) {
	found, err := c.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, volume.Name).String(),
	})
	if err != nil {
		return disk.Unmarked, unavailable("list volume "+volume.Name, err)
	}
	for i := range found.Items {
		if found.Items[i].UID == volume.UID {
			return disk.Mark(found.Items[i].Annotations[wellknown.DiskAnnotation]), nil
		}
	}
	return disk.Unmarked, errAgain
}

// confirmRelease makes sure that a claim goes only if its class still says so, and who makes
// it again still does. What the claim itself says is confirmed by its version.
func (c *Controller) confirmRelease(ctx context.Context, g *gathered) error {
	live := g.Facts
	claim := *g.Claim
	live.Claim = &claim
	var err error
	if claim.Maker, claim.Hindrance, err = c.liveMaker(ctx, g); err != nil {
		return err
	}
	var class *storagev1.StorageClass
	if name := g.volume.Spec.StorageClassName; name != "" {
		class, err = c.Client.StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			class, err = nil, nil
		}
		if err != nil {
			return unavailable("get StorageClass "+name, err)
		}
	}
	live.Terms = c.termsOf(g, class)
	if do := rules.Decide(&live).Do; do != rules.Begin && do != rules.DeleteClaim {
		return errAgain
	}
	return nil
}

// liveMaker is who makes the claim again, as the API server has it. What the claim itself says
// is confirmed by its version.
func (c *Controller) liveMaker(ctx context.Context, g *gathered) (*rules.Maker, string, error) {
	if g.Claim.Maker.ByClaim {
		return g.Claim.Maker, "", nil
	}
	namespace, name := g.claim.Namespace, g.Claim.Maker.Name
	if g.Claim.Maker.ByPod {
		var pods []*corev1.Pod
		pod, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			pods = append(pods, pod)
		case !apierrors.IsNotFound(err):
			return nil, "", unavailable("get pod "+namespace+"/"+name, err)
		}
		maker, hindrance := makerPod(ephemeralOwner(g.claim), pods, g.Node.Away())
		return maker, hindrance, nil
	}
	var sets []*appsv1.StatefulSet
	set, err := c.Client.AppsV1().StatefulSets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		sets = append(sets, set)
	case !apierrors.IsNotFound(err):
		return nil, "", unavailable("get StatefulSet "+namespace+"/"+name, err)
	}
	maker, hindrance := makerSet(g.claim, sets)
	return maker, hindrance, nil
}

// confirmBuried makes sure that no volume goes without a tombstone, which somebody may
// just have removed with the report.
func (c *Controller) confirmBuried(ctx context.Context, g *gathered) error {
	report, err := c.Reports.Get(ctx, stowage.PageName(g.node, 1), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errAgain
	case err != nil:
		return unavailable("get LocalDiskReport "+g.node, err)
	case !buried(report, g.volume):
		return errAgain
	}
	return nil
}

// confirmClaimGoes makes sure that pods whose claim is there, or was made again, stay.
func (c *Controller) confirmClaimGoes(ctx context.Context, g *gathered) error {
	ref := g.volume.Spec.ClaimRef
	var claim *corev1.PersistentVolumeClaim
	claim, err := c.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return unavailable("get claim "+ref.Namespace+"/"+ref.Name, err)
	case claim.UID != ref.UID || claim.DeletionTimestamp == nil:
		return errAgain
	}
	return nil
}
