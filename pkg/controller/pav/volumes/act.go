// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/loop"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/pav/helperpod"
)

const (
	volumeKind = "PavVolume"
	// again is when a volume is reconciled whose last write causes an event of an informer, in
	// case that something else had made the write before.
	again = 30 * time.Second
	// soon is when a volume is reconciled whose last write the next step follows.
	soon = time.Nanosecond
)

// reconcile takes the next step for the volume of a name.
func (c *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	if strays, err := c.removeStrays(ctx, name); strays || err != nil {
		return again, stale(err)
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
	return after, stale(err)
}

// stale adds ErrStale to errors of writes whose input is out of date.
func stale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", loop.ErrStale, err)
	}
	return err
}

// removeStrays deletes helper pods of a volume that does not exist, or not with the UID that they
// have: its finalizer was removed by hand. It reports whether there are any.
func (c *Controller) removeStrays(ctx context.Context, name string) (strays bool, err error) {
	pods := loop.List[corev1.Pod](c.pods, byOwner, name)
	if object, exists, err := c.written.GetByKey(name); err == nil && exists {
		pods = othersThan(object.(*stowage.PavVolume), pods)
	}
	if len(pods) == 0 {
		return false, nil
	}
	volume, err := found(c.Clients.Volumes.Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("get PavVolume %s: %w", name, err)
	}
	if volume != nil {
		pods = othersThan(volume, pods)
	}
	for _, pod := range pods {
		switch {
		case pod.DeletionTimestamp == nil:
			err = c.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		case helperpod.OutcomeOf(pod).State != helperpod.Running:
			err = c.releasePod(ctx, pod)
		}
		if err = wrap(gone(err), "remove pod %s, whose PavVolume is gone", klog.KObj(pod)); err != nil {
			break
		}
	}
	return len(pods) > 0, err
}

// othersThan returns the pods that a volume does not own.
func othersThan(volume *stowage.PavVolume, pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, volume) })
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
		return soon, c.begin(ctx, s, step)
	case rules.Record:
		return soon, c.record(ctx, s, step)
	case rules.CreatePod:
		return soon, c.createPod(ctx, s)
	case rules.CreatePV:
		_, err := c.Client.CoreV1().PersistentVolumes().Create(ctx, rules.PersistentVolume(&s.Facts), metav1.CreateOptions{})
		return soon, wrap(err, "create PersistentVolume %s", s.Volume.Name)
	case rules.DeletePod, rules.ReleasePod:
		return again, c.removePod(ctx, s, step)
	default:
		return again, c.remove(ctx, s, step)
	}
}

// wrap adds what was done to an error, if there is one.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// gone returns nil instead of an error if the object does not exist any more.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
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
	return c.record(ctx, s, rules.Record{Status: step.Status})
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
	klog.FromContext(ctx).V(2).Info("Recorded the state of a volume", logkeys.Volume, klog.KRef("", volume.Name), "phase", volume.Status.Phase, logkeys.Reason, step.Event.Reason)
	c.report(s, step.Event)
	s.Volume = volume
	return nil
}

// createPod creates the helper pod, and records its UID. A pod that the API server refuses is a
// result; any other error leaves open whether the pod exists. What the API server answers, as for a
// webhook that fails, is recorded.
func (c *Controller) createPod(ctx context.Context, s *situation) error {
	pod, err := c.Client.CoreV1().Pods(s.helper.Namespace).Create(ctx, s.helper, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsRequestEntityTooLargeError(err):
		return c.record(ctx, s, rules.PodRefused(&s.Facts, err.Error()))
	case err != nil:
		failed := fmt.Errorf("create pod %s: %w", klog.KObj(s.helper), err)
		if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown && reason != metav1.StatusReasonAlreadyExists {
			failed = errors.Join(failed, c.record(ctx, s, rules.PodNotCreated(&s.Facts, err.Error())))
		}
		return failed
	}
	klog.FromContext(ctx).V(2).Info("Created a helper pod", logkeys.Pod, klog.KObj(pod), logkeys.Volume, klog.KRef("", s.Volume.Name))
	return c.record(ctx, s, rules.PodCreated(&s.Facts, pod.UID))
}

// removePod deletes the helper pod, or removes its finalizer. A pod with another UID stays.
func (c *Controller) removePod(ctx context.Context, s *situation, step rules.Step) error {
	at := s.Volume.Status.Step
	pods := c.Client.CoreV1().Pods(at.PodNamespace)
	if of, deletes := step.(rules.DeletePod); deletes {
		err := pods.Delete(ctx, at.PodName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &of.UID}})
		return wrap(gone(err), "delete pod %s/%s", at.PodNamespace, at.PodName)
	}
	pod, err := pods.Get(ctx, at.PodName, metav1.GetOptions{})
	if err != nil {
		return wrap(gone(err), "get pod %s/%s", at.PodNamespace, at.PodName)
	}
	if pod.UID != step.(rules.ReleasePod).UID {
		return nil
	}
	return wrap(gone(c.releasePod(ctx, pod)), "remove the finalizer of pod %s/%s", at.PodNamespace, at.PodName)
}

// releasePod removes the finalizer of a helper pod that was read.
func (c *Controller) releasePod(ctx context.Context, pod *corev1.Pod) error {
	patch, err := finalizersPatch(pod, wellknown.PavPodFinalizer)
	if err == nil {
		_, err = c.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return err
}

// finalizersPatch returns a patch that removes a finalizer from the version of an object.
func finalizersPatch(object metav1.Object, finalizer string) ([]byte, error) {
	left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == finalizer })
	return patchOf(object, map[string]any{"finalizers": left})
}

// patchOf returns a merge patch of the metadata of one version of an object.
func patchOf(object metav1.Object, metadata map[string]any) ([]byte, error) {
	metadata["uid"], metadata["resourceVersion"] = object.GetUID(), object.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	return patch, wrap(err, "encode a patch of %s", object.GetName())
}

// remove takes the steps that remove parts of claim, PersistentVolume and PavVolume.
func (c *Controller) remove(ctx context.Context, s *situation, step rules.Step) error {
	core := c.Client.CoreV1()
	switch step := step.(type) {
	case rules.AddPVFinalizer:
		patch, err := patchOf(s.PV, map[string]any{"finalizers": append(slices.Clone(s.PV.Finalizers), rules.PVFinalizer)})
		if err == nil {
			_, err = core.PersistentVolumes().Patch(ctx, s.PV.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return wrap(err, "add the finalizer to PersistentVolume %s", s.PV.Name)
	case rules.RemovePVFinalizer:
		patch, err := finalizersPatch(s.PV, rules.PVFinalizer)
		if err == nil {
			_, err = core.PersistentVolumes().Patch(ctx, s.PV.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return wrap(gone(err), "remove the finalizer of PersistentVolume %s", s.PV.Name)
	case rules.DeletePV:
		err := core.PersistentVolumes().Delete(ctx, s.PV.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &step.UID}})
		return wrap(gone(err), "delete PersistentVolume %s", s.PV.Name)
	case rules.ReleaseNode:
		patch, err := patchOf(s.Claim, map[string]any{"annotations": map[string]any{rules.AnnSelectedNode: nil}})
		if err == nil {
			_, err = core.PersistentVolumeClaims(s.Claim.Namespace).Patch(ctx, s.Claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return wrap(gone(err), "remove the selected node of claim %s", klog.KObj(s.Claim))
	case rules.DeleteVolume:
		err := c.Clients.Volumes.Delete(ctx, s.Volume.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.Volume.UID, ResourceVersion: &s.Volume.ResourceVersion}})
		return wrap(gone(err), "delete PavVolume %s", s.Volume.Name)
	case rules.ReleaseVolume:
		patch, err := finalizersPatch(s.Volume, wellknown.PavVolumeFinalizer)
		if err == nil {
			_, err = c.Clients.Volumes.Patch(ctx, s.Volume.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return wrap(gone(err), "remove the finalizer of PavVolume %s", s.Volume.Name)
	default:
		return fmt.Errorf("unknown step %T", step)
	}
}
