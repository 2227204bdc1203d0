// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package stagings

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/loop"
)

// situation are the facts about a staging, and what its next step is made from.
type situation struct {
	rules.Facts
	// helper is the pod of the evaluated step; nil if it has none.
	helper *corev1.Pod
}

// gather returns the facts about the staging of a name from the informers, or live ones.
func (c *Controller) gather(ctx context.Context, name string, live bool) (*situation, error) {
	s := &situation{Facts: rules.Facts{Now: c.Now(), Live: live}}
	if err := c.gatherStaging(ctx, s, name); err != nil || s.Staging == nil {
		return s, err
	}
	for _, gather := range []func(context.Context, *situation) error{c.gatherPVs, c.gatherClaim, c.gatherVolume, c.gatherNode, c.gatherProvisioner, c.evaluate} {
		if err := gather(ctx, s); err != nil {
			return nil, err
		}
	}
	if pv := s.PV(); pv != nil && rules.OneNode(pv) {
		var err error
		if s.StagedOn, err = c.stagedOn(ctx, s.Staging, live); err != nil {
			return nil, err
		}
	}
	var err error
	s.Pod, err = c.Pod(ctx, s.Staging.Status.Step, s.Staging.UID, live)
	return s, err
}

func (c *Controller) gatherStaging(ctx context.Context, s *situation, name string) error {
	if s.Live {
		var err error
		s.Staging, err = steps.Found(c.Clients.Stagings.Get(ctx, name, metav1.GetOptions{}))
		return steps.Wrap(err, "get PavStaging %s", name)
	}
	object, exists, err := c.written.GetByKey(name)
	if err != nil {
		return fmt.Errorf("get PavStaging %s from the informer: %w", name, err)
	}
	if exists {
		s.Staging, _ = object.(*stowage.PavStaging)
	}
	return nil
}

func (c *Controller) gatherPVs(ctx context.Context, s *situation) error {
	driver, handle := s.Staging.Spec.Provisioner, s.Staging.Spec.Handle
	for _, pv := range loop.List[corev1.PersistentVolume](c.PVs, steps.ByHandle, steps.HandleKey(driver, handle)) {
		if s.Live {
			var err error
			if pv, err = steps.Found(c.Client.CoreV1().PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{})); err != nil {
				return fmt.Errorf("get a PersistentVolume of PavStaging %s: %w", s.Staging.Name, err)
			}
		}
		if pv != nil && pv.Spec.CSI != nil && pv.Spec.CSI.Driver == driver && pv.Spec.CSI.VolumeHandle == handle {
			s.PVs = append(s.PVs, pv)
		}
	}
	slices.SortFunc(s.PVs, func(a, b *corev1.PersistentVolume) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return nil
}

// gatherClaim reads the claim of the PersistentVolume, and whether a pod on the node uses it. No live
// list of the node's pods is necessary: kubelet requests a volume only for a pod that the informer has
// or receives.
func (c *Controller) gatherClaim(ctx context.Context, s *situation) error {
	pv := s.PV()
	if pv == nil || pv.Spec.ClaimRef == nil {
		return nil
	}
	ref := pv.Spec.ClaimRef
	object, _, err := c.Claims.GetStore().GetByKey(ref.Namespace + "/" + ref.Name)
	claim, _ := object.(*corev1.PersistentVolumeClaim)
	if err == nil && s.Live {
		claim, err = steps.Found(c.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{}))
	}
	if err != nil {
		return fmt.Errorf("get claim %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if claim == nil || claim.UID != ref.UID {
		return nil
	}
	s.Claim = claim
	s.Used = len(loop.List[corev1.Pod](c.users, byUse, useKey(claim.Namespace, claim.Name, s.Staging.Spec.NodeName))) > 0
	return nil
}

// gatherVolume reads the PavVolume of a dynamic volume.
func (c *Controller) gatherVolume(ctx context.Context, s *situation) error {
	pv := s.PV()
	if pv == nil {
		return nil
	}
	object, _, err := c.Volumes.GetStore().GetByKey(pv.Name)
	volume, _ := object.(*stowage.PavVolume)
	if err == nil && s.Live {
		volume, err = steps.Found(c.Clients.Volumes.Get(ctx, pv.Name, metav1.GetOptions{}))
	}
	if err != nil {
		return fmt.Errorf("get PavVolume %s: %w", pv.Name, err)
	}
	if volume != nil && volume.Spec.Provisioner == s.Staging.Spec.Provisioner {
		s.Volume = volume
	}
	return nil
}

func (c *Controller) gatherNode(ctx context.Context, s *situation) (err error) {
	name := s.Staging.Spec.NodeName
	if s.Node, err = steps.Found(c.nodes.Get(name)); s.Node == nil && err == nil && s.Live {
		s.Node, err = steps.Found(c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
	}
	return steps.Wrap(err, "get node %s", name)
}

func (c *Controller) gatherProvisioner(_ context.Context, s *situation) error {
	object, exists, err := c.Provisioners.GetStore().GetByKey(s.Staging.Spec.Provisioner)
	if err != nil {
		return fmt.Errorf("get PavProvisioner %s from the informer: %w", s.Staging.Spec.Provisioner, err)
	}
	if p, ok := object.(*stowage.PavProvisioner); exists && ok {
		s.Provisioner = provisionerFacts(p)
	}
	return nil
}

func provisionerFacts(p *stowage.PavProvisioner) *rules.Provisioner {
	return &rules.Provisioner{
		Name: p.Name, Problem: steps.NotAccepted(p), Revision: p.Status.Revision, MountOptions: p.Spec.MountOptions,
		Static:      slices.Contains(p.Spec.ProvisioningModes, stowage.ProvisioningStatic),
		NeedsFSType: p.Spec.FSGroupPolicy == storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy,
	}
}

// stagedOn returns another node that has the volume of a staging, or may have; empty if none has.
func (c *Controller) stagedOn(ctx context.Context, of *stowage.PavStaging, live bool) (string, error) {
	objects, err := c.written.ByIndex(steps.ByHandle, steps.HandleKey(of.Spec.Provisioner, of.Spec.Handle))
	if err != nil {
		return "", fmt.Errorf("list the PavStagings of a volume: %w", err)
	}
	for _, object := range objects {
		other, ok := object.(*stowage.PavStaging)
		if !ok || other.Name == of.Name {
			continue
		}
		if live && !rules.Holds(other) {
			if other, err = steps.Found(c.Clients.Stagings.Get(ctx, other.Name, metav1.GetOptions{})); err != nil {
				return "", fmt.Errorf("get another PavStaging of the volume: %w", err)
			}
		}
		if other != nil && rules.Holds(other) {
			return other.Spec.NodeName, nil
		}
	}
	return "", nil
}
