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
	"stowage.dev/stowage/pkg/metrics"
)

// act does the one thing that was decided.
func (c *Controller) act(ctx context.Context, g *gathered, d rules.Decision) error {
	switch d.Do {
	case rules.MarkLost:
		return c.mark(ctx, g, d)
	case rules.Unmark:
		return c.annotate(ctx, g, map[string]any{wellknown.LostAnnotation: nil, wellknown.ReleaseAnnotation: nil})
	case rules.Begin:
		return c.begin(ctx, g, d)
	case rules.DeleteClaim:
		return c.releaseClaim(ctx, g)
	case rules.DeletePods:
		return c.deletePods(ctx, g, d.Pods)
	case rules.Bury:
		return c.bury(ctx, g)
	case rules.Remove:
		return c.removeVolume(ctx, g)
	case rules.LetGo:
		left := slices.DeleteFunc(slices.Clone(g.volume.Finalizers), func(f string) bool { return f == wellknown.LocalVolumeFinalizer })
		return c.patch(ctx, g, map[string]any{"finalizers": left})
	default:
		return nil
	}
}

// mark writes down since when the volume is lost, and tells at once what comes of it: the delay
// may be over by the volume's next turn, and then nobody would have been warned.
func (c *Controller) mark(ctx context.Context, g *gathered, d rules.Decision) error {
	mark := rules.Mark{Cause: d.Cause, Since: d.Since}
	if err := c.annotate(ctx, g, map[string]any{wellknown.LostAnnotation: mark.String(), wellknown.ReleaseAnnotation: nil}); err != nil {
		return err
	}
	g.Mark, g.Release = &mark, nil
	c.tell(g, rules.Decide(&g.Facts))
	return nil
}

// annotate changes annotations of the volume; nil takes one off.
func (c *Controller) annotate(ctx context.Context, g *gathered, annotations map[string]any) error {
	return c.patch(ctx, g, map[string]any{"annotations": annotations})
}

// patch changes the metadata of the volume, if it is still as it was known, and knows it as
// it is then.
func (c *Controller) patch(ctx context.Context, g *gathered, metadata map[string]any) error {
	metadata["uid"], metadata["resourceVersion"] = g.volume.UID, g.volume.ResourceVersion
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode the change of volume %s: %w", g.volume.Name, err)
	}
	volume, err := c.Client.CoreV1().PersistentVolumes().Patch(ctx, g.volume.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return settle("patch volume "+g.volume.Name, err)
	}
	g.volume = volume
	return nil
}

// settle makes errors of a write that came too late errAgain.
func settle(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return errAgain
	default:
		return unavailable(what, err)
	}
}

// begin writes down the release, and goes on at once: in a storm the volume's next turn
// may come when all others have had theirs.
func (c *Controller) begin(ctx context.Context, g *gathered, d rules.Decision) error {
	c.remember(g.volume.UID, g.Now) // before anybody can count it
	g.Release = &rules.Began{ClaimUID: g.Claim.UID, At: g.Now}
	if err := c.annotate(ctx, g, map[string]any{wellknown.ReleaseAnnotation: g.Release.String()}); err != nil {
		return err
	}
	if err := c.confirm(ctx, g, d); errors.Is(err, errAgain) {
		return errors.Join(err, c.takeBack(ctx, g))
	} else if err != nil {
		return err
	}
	return c.releaseClaim(ctx, g)
}

// releaseClaim deletes the claim, or the pod that it belongs to.
func (c *Controller) releaseClaim(ctx context.Context, g *gathered) error {
	if !g.Release.Prompt(time.Now()) {
		return errAgain // the API server has taken its time
	}
	c.tellReleasing(g)
	if err := c.deleteClaim(ctx, g); refused(err) {
		return errors.Join(err, c.takeBack(ctx, g))
	} else if err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Released the claim of a lost volume", logkeys.Claim, klog.KObj(g.claim), logkeys.Volume, klog.KObj(g.volume), logkeys.Node, klog.KRef("", g.node))
	metrics.CountNodeLossRelease(metrics.ReleaseDone)
	c.tellReleased(g)
	return nil
}

// deleteClaim deletes the claim, or the pod that it belongs to, if the claim is still as the
// informer showed it: a user who has just asked for it to be kept has changed its version.
func (c *Controller) deleteClaim(ctx context.Context, g *gathered) error {
	claim := g.claim
	if !g.Claim.Maker.ByPod {
		err := c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion},
		})
		return settle("delete claim "+claim.Namespace+"/"+claim.Name, err)
	}
	live, err := c.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if err != nil {
		return settle("get claim "+claim.Namespace+"/"+claim.Name, err)
	}
	if live.ResourceVersion != claim.ResourceVersion {
		return errAgain
	}
	var owner []rules.Pod
	for _, pod := range g.Pods {
		if pod.UID == g.Claim.Maker.UID {
			owner = append(owner, pod)
		}
	}
	return c.deletePods(ctx, g, owner)
}

// refused says that the API server has answered a request, and not done it.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

// takeBack takes a release back whose claim is to stay after all, or which somebody does not
// let go, such as an admission webhook: it is not to spend the budget of others.
func (c *Controller) takeBack(ctx context.Context, g *gathered) error {
	if err := c.annotate(ctx, g, map[string]any{wellknown.ReleaseAnnotation: nil}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.released, string(g.volume.UID))
	return nil
}

// deletePods deletes pods so that they are made anew. Where no kubelet ends them, they
// go at once.
func (c *Controller) deletePods(ctx context.Context, g *gathered, pods []rules.Pod) error {
	for _, pod := range pods {
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(pod.UID)}
		if g.Node.Away() || !pod.Placed {
			options.GracePeriodSeconds = new(int64)
		}
		err := c.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return unavailable("delete pod "+pod.Namespace+"/"+pod.Name, err)
		}
		if err == nil {
			klog.FromContext(ctx).V(2).Info("Deleted a pod whose claim was released", logkeys.Pod, klog.KRef(pod.Namespace, pod.Name), logkeys.Volume, klog.KObj(g.volume))
			c.tellPod(g, pod)
		}
	}
	return nil
}

// removeVolume deletes the volume. Our finalizer keeps it.
func (c *Controller) removeVolume(ctx context.Context, g *gathered) error {
	err := c.Client.CoreV1().PersistentVolumes().Delete(ctx, g.volume.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &g.volume.UID, ResourceVersion: &g.volume.ResourceVersion},
	})
	if err := settle("delete volume "+g.volume.Name, err); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Removed a lost volume", logkeys.Volume, klog.KObj(g.volume), logkeys.Node, klog.KRef("", g.node))
	metrics.CountNodeLossRemoval(metrics.RemovalDone)
	c.tellRemoved(g)
	return nil
}
