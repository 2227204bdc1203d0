// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

const volumeKind = "PavVolume"

// reconcile takes the next step for the volume of a name.
func (c *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	if strays, err := c.removeStrays(ctx, name); strays || err != nil {
		return steps.Again, steps.Stale(err)
	}
	s, err := c.gather(ctx, name, false)
	if err != nil {
		return 0, err
	}
	step := rules.Decide(&s.Facts)
	if _, read := step.(rules.Read); read {
		if s, err = c.gather(ctx, name, true); err != nil {
			return 0, err
		}
		step = rules.Decide(&s.Facts)
	}
	klog.FromContext(ctx).V(4).Info("Decided about a volume", logkeys.Volume, klog.KRef("", name), "step", fmt.Sprintf("%T", step))
	after, err := c.act(ctx, s, step)
	return after, steps.Stale(err)
}

// removeStrays deletes helper pods of a volume that does not exist, or not with the UID that they
// have. It reports whether there are any.
func (c *Controller) removeStrays(ctx context.Context, name string) (bool, error) {
	var known types.UID
	if object, exists, err := c.written.GetByKey(name); err == nil && exists {
		known = object.(*stowage.PavVolume).UID
	}
	return c.RemoveStrays(ctx, steps.OwnerKey(volumeKind, name), known, func() (types.UID, error) {
		volume, err := steps.Found(c.Clients.Volumes.Get(ctx, name, metav1.GetOptions{}))
		if err != nil || volume == nil {
			return "", steps.Wrap(err, "get PavVolume %s", name)
		}
		return volume.UID, nil
	})
}

// act takes a step. It returns after which time to reconcile the volume again.
func (c *Controller) act(ctx context.Context, s *situation, step rules.Step) (time.Duration, error) {
	switch step := step.(type) {
	case rules.None:
		return 0, nil
	case rules.Refuse:
		c.refuse(s, step)
		return s.Limits.BackoffLast, nil
	case rules.Wait:
		return step.For, nil
	case rules.Begin:
		return steps.Soon, c.begin(ctx, s, step)
	case rules.Record:
		return steps.Soon, c.record(ctx, s, step)
	case rules.CreatePod:
		return steps.Soon, c.createPod(ctx, s)
	case rules.CreatePV:
		_, err := c.Client.CoreV1().PersistentVolumes().Create(ctx, rules.PersistentVolume(&s.Facts), metav1.CreateOptions{})
		return steps.Soon, steps.Wrap(err, "create PersistentVolume %s", s.Volume.Name)
	case rules.DeletePod:
		return steps.Again, c.DeletePod(ctx, s.Volume.Status.Step, step.UID)
	case rules.ReleasePod:
		return steps.Again, c.ReleasePod(ctx, s.Volume.Status.Step, step.UID)
	default:
		return steps.Again, c.remove(ctx, s, step)
	}
}

// begin writes what an attempt makes the volume from, and then the status.
func (c *Controller) begin(ctx context.Context, s *situation, step rules.Begin) error {
	claim, err := json.Marshal(step.Claim)
	if err != nil {
		return fmt.Errorf("encode claim %s: %w", klog.KObj(step.Claim), err)
	}
	class, err := json.Marshal(step.Class)
	if err != nil {
		return fmt.Errorf("encode StorageClass %s: %w", step.Class.Name, err)
	}
	volume := &stowage.PavVolume{
		ObjectMeta: metav1.ObjectMeta{Name: rules.VolumeName(step.Claim.UID), Finalizers: []string{wellknown.PavVolumeFinalizer}},
		Spec: stowage.PavVolumeSpec{
			Provisioner: s.Provisioner.Name, ProvisionerUID: s.Provisioner.UID,
			ClaimRef: stowage.ClaimReference{Namespace: step.Claim.Namespace, Name: step.Claim.Name, UID: step.Claim.UID},
		},
	}
	if s.Volume != nil {
		volume = s.Volume.DeepCopy()
	}
	volume.Spec.Revision, volume.Spec.NodeName = step.Revision, step.Node
	volume.Spec.Claim, volume.Spec.Class = runtime.RawExtension{Raw: claim}, runtime.RawExtension{Raw: class}
	if s.Volume == nil {
		volume, err = c.Clients.Volumes.Create(ctx, volume, metav1.CreateOptions{})
	} else {
		volume, err = c.Clients.Volumes.Update(ctx, volume, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write PavVolume %s: %w", rules.VolumeName(step.Claim.UID), err)
	}
	c.written.Mutation(volume)
	klog.FromContext(ctx).V(2).Info("Began to make a volume", logkeys.Volume, klog.KRef("", volume.Name), logkeys.Claim, klog.KObj(step.Claim), logkeys.Provisioner, volume.Spec.Provisioner, "revision", step.Revision)
	s.Volume = volume
	return c.record(ctx, s, rules.Record{Status: step.Status, Event: step.Event})
}

// record writes the status of the volume, and reports the event.
func (c *Controller) record(ctx context.Context, s *situation, step rules.Record) error {
	volume := s.Volume.DeepCopy()
	volume.Status = step.Status
	volume.Status.ObservedGeneration = volume.Generation
	volume, err := c.Clients.Volumes.UpdateStatus(ctx, volume, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write the status of PavVolume %s: %w", s.Volume.Name, err)
	}
	c.written.Mutation(volume)
	if volume.Status.Handle == "" {
		c.handles.release(s.Volume)
	}
	c.observe(s, volume)
	klog.FromContext(ctx).V(2).Info("Recorded the state of a volume", logkeys.Volume, klog.KRef("", volume.Name), "phase", volume.Status.Phase, logkeys.Reason, step.Event.Reason)
	c.report(s, step.Event)
	s.Volume = volume
	return nil
}

// createPod creates the helper pod, and records its UID, or why it was not created.
func (c *Controller) createPod(ctx context.Context, s *situation) error {
	creation, err := c.CreatePod(ctx, s.helper)
	switch {
	case creation.Refused != "":
		c.ObserveOutcome(s.Volume.Status.Step, metrics.PavRefused)
		return c.record(ctx, s, rules.PodRefused(&s.Facts, creation.Refused))
	case creation.Uncertain != "":
		return errors.Join(err, c.record(ctx, s, rules.PodNotCreated(&s.Facts, creation.Uncertain)))
	case err != nil:
		return err
	}
	return c.record(ctx, s, rules.PodCreated(&s.Facts, creation.UID))
}

// remove takes the steps that remove parts of claim, PersistentVolume and PavVolume.
func (c *Controller) remove(ctx context.Context, s *situation, step rules.Step) error {
	core := c.Client.CoreV1()
	switch step := step.(type) {
	case rules.AddPVFinalizer:
		patch, err := steps.AddFinalizer(s.PV, rules.PVFinalizer)
		if err == nil {
			_, err = core.PersistentVolumes().Patch(ctx, s.PV.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return steps.Wrap(err, "add the finalizer to PersistentVolume %s", s.PV.Name)
	case rules.RemovePVFinalizer:
		patch, err := steps.RemoveFinalizer(s.PV, rules.PVFinalizer)
		if err == nil {
			_, err = core.PersistentVolumes().Patch(ctx, s.PV.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return steps.Wrap(steps.Gone(err), "remove the finalizer of PersistentVolume %s", s.PV.Name)
	case rules.DeletePV:
		err := core.PersistentVolumes().Delete(ctx, s.PV.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &step.UID}})
		return steps.Wrap(steps.Gone(err), "delete PersistentVolume %s", s.PV.Name)
	case rules.ReleaseNode:
		patch, err := steps.Patch(s.Claim, map[string]any{"annotations": map[string]any{rules.AnnSelectedNode: nil}})
		if err == nil {
			_, err = core.PersistentVolumeClaims(s.Claim.Namespace).Patch(ctx, s.Claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return steps.Wrap(steps.Gone(err), "remove the selected node of claim %s", klog.KObj(s.Claim))
	case rules.DeleteVolume:
		err := c.Clients.Volumes.Delete(ctx, s.Volume.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.Volume.UID, ResourceVersion: &s.Volume.ResourceVersion}})
		return steps.Wrap(steps.Gone(err), "delete PavVolume %s", s.Volume.Name)
	case rules.ReleaseVolume:
		patch, err := steps.RemoveFinalizer(s.Volume, wellknown.PavVolumeFinalizer)
		if err == nil {
			_, err = c.Clients.Volumes.Patch(ctx, s.Volume.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return steps.Wrap(steps.Gone(err), "remove the finalizer of PavVolume %s", s.Volume.Name)
	default:
		return fmt.Errorf("unknown step %T", step)
	}
}
