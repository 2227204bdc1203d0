// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/loop"
)

// situation are the facts about a volume, and what its next step is made from.
type situation struct {
	rules.Facts
	// helper is the pod of the evaluated step; nil if it has none.
	helper *corev1.Pod
}

// gather returns the facts about the volume of a name from the informers, or live ones.
func (c *Controller) gather(ctx context.Context, name string, live bool) (*situation, error) {
	s := &situation{Facts: rules.Facts{Now: c.Now(), Live: live}}
	if err := c.gatherObjects(s, name); err != nil {
		return nil, err
	}
	if live {
		if err := c.refresh(ctx, s, name); err != nil {
			return nil, err
		}
	}
	if s.Claim == nil && s.Volume == nil {
		return s, nil
	}
	if err := c.gatherMade(s); err != nil {
		return nil, err
	}
	if err := c.evaluate(ctx, s); err != nil {
		return nil, err
	}
	s.HandleUser = c.handleUser(s)
	if s.Volume != nil {
		for _, staging := range loop.List[stowage.PavStaging](c.Stagings, steps.ByHandle, steps.HandleKey(s.Volume.Spec.Provisioner, s.Volume.Status.Handle)) {
			s.StagedOn = append(s.StagedOn, staging.Spec.NodeName)
		}
		slices.Sort(s.StagedOn)
	}
	var err error
	if node := rules.NodeOf(s.Volume, s.Claim); node != "" {
		if s.Node, err = steps.Found(c.nodes.Get(node)); s.Node == nil && err == nil && live {
			s.Node, err = steps.Found(c.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}))
		}
		if err != nil {
			return nil, fmt.Errorf("get node %s: %w", node, err)
		}
	}
	if s.NoCapacity, err = c.noCapacity(s); err != nil {
		return nil, err
	}
	return s, c.gatherPod(ctx, s)
}

// gatherObjects reads volume, PersistentVolume and claim from the informers.
func (c *Controller) gatherObjects(s *situation, name string) error {
	object, exists, err := c.written.GetByKey(name)
	if err != nil {
		return fmt.Errorf("get PavVolume %s from the informer: %w", name, err)
	}
	if exists {
		s.Volume, _ = object.(*stowage.PavVolume)
	}
	if object, exists, err = c.PVs.GetStore().GetByKey(name); err != nil {
		return fmt.Errorf("get PersistentVolume %s from the informer: %w", name, err)
	} else if exists {
		s.PV, _ = object.(*corev1.PersistentVolume)
	}
	claims := loop.List[corev1.PersistentVolumeClaim](c.Claims, byVolume, name)
	if s.Volume != nil {
		claims = loop.List[corev1.PersistentVolumeClaim](c.Claims, byVolume, rules.VolumeName(rules.ClaimOf(s.Volume, s.PV).UID))
	}
	if s.anyClaim() {
		claims = append(claims, loop.List[corev1.PersistentVolumeClaim](c.Claims, byVolumeName, name)...)
	}
	if len(claims) > 0 {
		s.Claim = claims[0]
	}
	return nil
}

// anyClaim reports whether a claim counts only because its volumeName is the volume. What refers to
// a claim has no other, whatever tenants write into their own claims.
func (s *situation) anyClaim() bool {
	return s.Volume != nil && (s.PV == nil || s.PV.Spec.ClaimRef == nil)
}

// refresh replaces volume, PersistentVolume and claim by those of the API server.
func (c *Controller) refresh(ctx context.Context, s *situation, name string) error {
	var err error
	if s.Volume, err = steps.Found(c.Clients.Volumes.Get(ctx, name, metav1.GetOptions{})); err != nil {
		return fmt.Errorf("get PavVolume %s: %w", name, err)
	}
	if s.PV, err = steps.Found(c.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})); err != nil {
		return fmt.Errorf("get PersistentVolume %s: %w", name, err)
	}
	var of []stowage.ClaimReference
	if s.Volume != nil {
		of = append(of, rules.ClaimOf(s.Volume, s.PV))
	}
	if s.Claim != nil && (s.Volume == nil || s.anyClaim()) {
		of = append(of, stowage.ClaimReference{Namespace: s.Claim.Namespace, Name: s.Claim.Name, UID: s.Claim.UID})
	}
	s.Claim = nil
	for _, ref := range of {
		claim, err := steps.Found(c.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{}))
		if err != nil {
			return fmt.Errorf("get claim %s/%s: %w", ref.Namespace, ref.Name, err)
		}
		if claim != nil && claim.UID == ref.UID {
			claim.ManagedFields = nil // as in the informer: the PavVolume will have a copy
			s.Claim = claim
			return nil
		}
	}
	return nil
}

// gatherMade reads class, provisioner and revision.
func (c *Controller) gatherMade(s *situation) error {
	name := ""
	if s.Claim != nil {
		name = provisionerOf(s.Claim)
		class, err := steps.Found(c.classes.Get(storagehelpers.GetPersistentVolumeClaimClass(s.Claim)))
		if err != nil {
			return fmt.Errorf("get the class of a claim: %w", err)
		}
		s.Class = class
	}
	if s.Volume != nil {
		name = s.Volume.Spec.Provisioner
	}
	if object, exists, err := c.Provisioners.GetStore().GetByKey(name); err != nil {
		return fmt.Errorf("get PavProvisioner %s from the informer: %w", name, err)
	} else if exists {
		provisioner, ok := object.(*stowage.PavProvisioner)
		if ok {
			s.Provisioner = provisionerFacts(provisioner)
		}
	}
	if s.Volume == nil {
		return nil
	}
	made := &rules.Made{Claim: &corev1.PersistentVolumeClaim{}, Class: &storagev1.StorageClass{}}
	if err := errors.Join(json.Unmarshal(s.Volume.Spec.Claim.Raw, made.Claim), json.Unmarshal(s.Volume.Spec.Class.Raw, made.Class)); err != nil {
		return fmt.Errorf("decode the claim and the class of PavVolume %s: %w", s.Volume.Name, err)
	}
	spec, problem := c.specOf(s.Volume.Spec.Revision)
	made.Problem = problem
	if problem != "" && s.Provisioner != nil {
		spec, _ = c.specOf(s.Provisioner.Revision)
	}
	if spec != nil {
		made.Access = accessOf(spec)
	}
	s.Made = made
	return nil
}

func provisionerFacts(p *stowage.PavProvisioner) *rules.Provisioner {
	return &rules.Provisioner{
		Name: p.Name, UID: p.UID, Deleting: p.DeletionTimestamp != nil,
		Dynamic: slices.Contains(p.Spec.ProvisioningModes, stowage.ProvisioningDynamic),
		Problem: steps.NotAccepted(p), Revision: p.Status.Revision, Access: accessOf(&p.Spec),
	}
}

func accessOf(spec *stowage.PavProvisionerSpec) rules.Access {
	if a := spec.Accessibility; a != nil {
		return rules.Access{SelectedNode: a.Mode == stowage.AccessibleSelectedNode, TopologyKeys: a.TopologyKeys}
	}
	return rules.Access{}
}

// handleUser describes what else has the handle of a volume; empty if nothing does.
func (c *Controller) handleUser(s *situation) string {
	if s.Volume == nil {
		return ""
	}
	handle := s.Volume.Status.Handle
	if handle == "" && s.Evaluated.Handle != nil {
		handle = *s.Evaluated.Handle
	}
	key := steps.HandleKey(s.Volume.Spec.Provisioner, handle)
	if key == "" {
		return ""
	}
	for _, pv := range loop.List[corev1.PersistentVolume](c.PVs, steps.ByHandle, key) {
		if pv.Name != s.Volume.Name {
			return "PersistentVolume " + pv.Name
		}
	}
	for _, volume := range loop.List[stowage.PavVolume](c.Volumes, steps.ByHandle, key) {
		if rules.Holds(volume, s.Volume) {
			return "PavVolume " + volume.Name
		}
	}
	if s.Volume.Status.Phase == stowage.PavVolumePublishing {
		if holder := c.handles.take(key, s.Volume); holder != s.Volume.Name {
			return "PavVolume " + holder
		}
	}
	return ""
}

// handles are the volumes that may have a PersistentVolume, by driver and handle: informers do not
// show two volumes to each other that are published at the same time. Of the volumes before this
// process became the leader, they show all.
type handles struct {
	mu sync.Mutex
	of map[string]*stowage.PavVolume
}

// take returns the name of the volume that has a handle: the given one, unless another took it.
func (h *handles) take(key string, volume *stowage.PavVolume) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if holder := h.of[key]; holder != nil && holder.UID != volume.UID {
		return holder.Name
	}
	if h.of == nil {
		h.of = map[string]*stowage.PavVolume{}
	}
	h.of[key] = &stowage.PavVolume{ObjectMeta: metav1.ObjectMeta{Name: volume.Name, UID: volume.UID}}
	return volume.Name
}

// release has a volume leave the handle that its status has.
func (h *handles) release(volume *stowage.PavVolume) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := steps.HandleKey(volume.Spec.Provisioner, volume.Status.Handle)
	if holder := h.of[key]; holder != nil && holder.UID == volume.UID {
		delete(h.of, key)
	}
}

// gatherPod reads the helper pod of the status.
func (c *Controller) gatherPod(ctx context.Context, s *situation) (err error) {
	if s.Volume != nil {
		s.Pod, err = c.Pod(ctx, s.Volume.Status.Step, s.Volume.UID, s.Live)
	}
	return err
}
