// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

// apply takes the action of a decision.
func (c *Controller) apply(ctx context.Context, f *volumeFacts, d rules.Decision) error {
	switch d.Do {
	case rules.MarkLost:
		return c.mark(ctx, f, d)
	case rules.RemoveMark:
		return c.annotate(ctx, f, map[string]any{wellknown.LostAnnotation: nil, wellknown.ReleaseAnnotation: nil})
	case rules.BeginRelease:
		return c.beginRelease(ctx, f, d)
	case rules.DeleteClaim:
		return c.releaseClaim(ctx, f)
	case rules.DeletePods:
		return c.deletePods(ctx, f, d.Pods)
	case rules.AddTombstone:
		return c.addTombstone(ctx, f)
	case rules.DeleteVolume:
		return c.removeVolume(ctx, f)
	case rules.RemoveFinalizer:
		left := slices.DeleteFunc(slices.Clone(f.volume.Finalizers), func(f string) bool { return f == wellknown.LocalVolumeFinalizer })
		return c.patch(ctx, f, map[string]any{"finalizers": left})
	case rules.DeletePavVolume:
		return c.deletePavVolume(ctx, f)
	default:
		return nil
	}
}

// mark writes the mark on the volume, and reports the new state at once: the delay may be over
// before the volume is reconciled again, and users would not have been warned.
func (c *Controller) mark(ctx context.Context, f *volumeFacts, d rules.Decision) error {
	mark := rules.Mark{Cause: d.Cause, Since: d.Since}
	if err := c.annotate(ctx, f, map[string]any{wellknown.LostAnnotation: mark.String(), wellknown.ReleaseAnnotation: nil}); err != nil {
		return err
	}
	f.Mark, f.Release = &mark, nil
	c.recordState(f, rules.Decide(&f.Facts))
	return nil
}

// annotate changes annotations of the volume; nil removes one.
func (c *Controller) annotate(ctx context.Context, f *volumeFacts, annotations map[string]any) error {
	return c.patch(ctx, f, map[string]any{"annotations": annotations})
}

// patch changes the metadata of the volume if it has not changed, and keeps the result.
func (c *Controller) patch(ctx context.Context, f *volumeFacts, metadata map[string]any) error {
	metadata["uid"], metadata["resourceVersion"] = f.volume.UID, f.volume.ResourceVersion
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode the change of volume %s: %w", f.volume.Name, err)
	}
	volume, err := c.Client.CoreV1().PersistentVolumes().Patch(ctx, f.volume.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return writeError("patch volume "+f.volume.Name, err)
	}
	f.volume = volume
	return nil
}

// writeError turns conflicts of a write into loop.ErrStale.
func writeError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return loop.ErrStale
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// beginRelease writes the release and deletes the claim at once: with many lost volumes the next
// reconciliation may come too late.
func (c *Controller) beginRelease(ctx context.Context, f *volumeFacts, d rules.Decision) error {
	c.mu.Lock()
	c.count(f.volume.UID, f.Now) // before other volumes count it
	c.mu.Unlock()
	f.Release = &rules.BegunRelease{ClaimUID: f.Claim.UID, At: f.Now}
	if err := c.annotate(ctx, f, map[string]any{wellknown.ReleaseAnnotation: f.Release.String()}); err != nil {
		return err
	}
	if err := c.confirm(ctx, f, d); errors.Is(err, loop.ErrStale) {
		return errors.Join(err, c.undoRelease(ctx, f))
	} else if err != nil {
		return err
	}
	return c.releaseClaim(ctx, f)
}

// releaseClaim deletes the claim, or the pod that owns it.
func (c *Controller) releaseClaim(ctx context.Context, f *volumeFacts) error {
	if !f.Release.WithinLeeway(time.Now()) {
		return loop.ErrStale // the write took too long
	}
	c.eventOnClaim(f, message{eventReleasing, actionRelease, fmt.Sprintf(
		"deleting the claim so that it is recreated: its volume %s is lost with its data (%s)", f.volume.Name, c.causeText(f, rules.CauseOf(&f.Facts)))})
	if err := c.deleteClaim(ctx, f); rejected(err) {
		return errors.Join(err, c.undoRelease(ctx, f))
	} else if err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Released the claim of a lost volume", logkeys.Claim, klog.KObj(f.claim), logkeys.Volume, klog.KObj(f.volume), logkeys.Node, klog.KRef("", f.node))
	metrics.CountNodeLossRelease(metrics.ReleaseDone)
	c.eventOnClaim(f, message{eventReleased, actionRelease, fmt.Sprintf("the claim was deleted because its volume %s is lost", f.volume.Name)})
	return nil
}

// deleteClaim deletes the claim, or the pod that owns it, if the claim has not changed: a user who
// just annotated it to be kept changed its version.
func (c *Controller) deleteClaim(ctx context.Context, f *volumeFacts) error {
	claim := f.claim
	if !f.Claim.Recreator.ByPod {
		err := c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion},
		})
		return writeError("delete claim "+claim.Namespace+"/"+claim.Name, err)
	}
	live, err := c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if err != nil {
		return writeError("get claim "+claim.Namespace+"/"+claim.Name, err)
	}
	if live.ResourceVersion != claim.ResourceVersion {
		return loop.ErrStale
	}
	owner := slices.DeleteFunc(slices.Clone(f.Pods), func(pod rules.Pod) bool { return pod.UID != f.Claim.Recreator.UID })
	return c.deletePods(ctx, f, owner)
}

// rejected reports whether the API server rejected a request.
func rejected(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

// undoRelease removes a release whose claim must stay after all, or whose deletion was rejected,
// such as by an admission webhook: it must not use up the budget.
func (c *Controller) undoRelease(ctx context.Context, f *volumeFacts) error {
	if err := c.annotate(ctx, f, map[string]any{wellknown.ReleaseAnnotation: nil}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.released, string(f.volume.UID))
	return nil
}

// deletePods deletes pods so that their controllers recreate them; without grace period where no
// kubelet terminates them.
func (c *Controller) deletePods(ctx context.Context, f *volumeFacts, pods []rules.Pod) error {
	for _, pod := range pods {
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(pod.UID)}
		if f.Node.Lost() || !pod.Placed {
			options.GracePeriodSeconds = new(int64)
		}
		err := c.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if err == nil {
			klog.FromContext(ctx).V(2).Info("Deleted a pod whose claim was released", logkeys.Pod, klog.KRef(pod.Namespace, pod.Name), logkeys.Volume, klog.KObj(f.volume))
			c.event(podReference(pod), f.volume, message{eventReleased, actionRelease, fmt.Sprintf("the pod was deleted to be recreated because volume %s is lost", f.volume.Name)})
		}
	}
	return nil
}

// removeVolume deletes the volume. The finalizer keeps it until the tombstone is confirmed.
func (c *Controller) removeVolume(ctx context.Context, f *volumeFacts) error {
	err := c.Client.CoreV1().PersistentVolumes().Delete(ctx, f.volume.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &f.volume.UID, ResourceVersion: &f.volume.ResourceVersion},
	})
	if err := writeError("delete volume "+f.volume.Name, err); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Removed a lost volume", logkeys.Volume, klog.KObj(f.volume), logkeys.Node, klog.KRef("", f.node))
	metrics.CountNodeLossRemoval(metrics.RemovalDone)
	c.event(f.volume, nil, message{eventRemoved, actionRelease, fmt.Sprintf(
		"removed: %s; tombstone %s causes a clean of the disk on any node where it appears", c.causeText(f, rules.CauseOf(&f.Facts)), tombstoneName(f))})
	return nil
}

// deletePavVolume gives up what the lost node has of a provisioned volume: without its PavVolume, no
// deletion pod waits for the node.
func (c *Controller) deletePavVolume(ctx context.Context, f *volumeFacts) error {
	state, err := c.PavVolumes.Get(ctx, f.volume.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // the PersistentVolume is about to go, too
	case err != nil:
		return fmt.Errorf("get PavVolume %s: %w", f.volume.Name, err)
	case state.DeletionTimestamp != nil:
		return nil
	case state.Spec.NodeName != f.node:
		return fmt.Errorf("give up volume %s on node %s: its PavVolume is of node %q", f.volume.Name, f.node, state.Spec.NodeName)
	}
	err = c.PavVolumes.Delete(ctx, f.volume.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &state.UID, ResourceVersion: &state.ResourceVersion},
	})
	if err := writeError("delete PavVolume "+f.volume.Name, err); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Removed a lost volume", logkeys.Volume, klog.KObj(f.volume), logkeys.Node, klog.KRef("", f.node))
	metrics.CountNodeLossRemoval(metrics.RemovalDone)
	c.event(f.volume, nil, message{eventRemoved, actionRelease, fmt.Sprintf(
		"removed: %s; what is left of the volume there stays if the node returns", c.causeText(f, rules.CauseOf(&f.Facts)))})
	return nil
}
