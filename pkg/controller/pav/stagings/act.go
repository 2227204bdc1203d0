// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package stagings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

// The action of events.
const actionStage = "Stage"

// reconcile takes the next step for the staging of a name.
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
	klog.FromContext(ctx).V(4).Info("Decided about a staging", "staging", klog.KRef("", name), "step", fmt.Sprintf("%T", step))
	after, err := c.act(ctx, s, step)
	return after, steps.Stale(err)
}

// removeStrays deletes helper pods of a staging that does not exist, or not with the UID that they
// have. It reports whether there are any.
func (c *Controller) removeStrays(ctx context.Context, name string) (bool, error) {
	var known types.UID
	if object, exists, err := c.written.GetByKey(name); err == nil && exists {
		known = object.(*stowage.PavStaging).UID
	}
	return c.RemoveStrays(ctx, steps.OwnerKey(stagingKind, name), known, func() (types.UID, error) {
		staging, err := steps.Found(c.Clients.Stagings.Get(ctx, name, metav1.GetOptions{}))
		if err != nil || staging == nil {
			return "", steps.Wrap(err, "get PavStaging %s", name)
		}
		return staging.UID, nil
	})
}

// act takes a step. It returns after which time to reconcile the staging again.
func (c *Controller) act(ctx context.Context, s *situation, step rules.Step) (time.Duration, error) {
	switch step := step.(type) {
	case rules.None:
		return 0, nil
	case rules.Wait:
		return step.For, nil
	case rules.Begin:
		return steps.Soon, c.begin(ctx, s, step)
	case rules.Record:
		return steps.Soon, c.record(ctx, s, step)
	case rules.CreatePod:
		return steps.Soon, c.createPod(ctx, s)
	case rules.DeletePod:
		return steps.Again, c.DeletePod(ctx, s.Staging.Status.Step, step.UID)
	case rules.ReleasePod:
		return steps.Again, c.ReleasePod(ctx, s.Staging.Status.Step, step.UID)
	case rules.AddFinalizer:
		patch, err := steps.AddFinalizer(s.Staging, wellknown.PavStagingFinalizer)
		return steps.Soon, steps.Wrap(c.patch(ctx, s, patch, err), "add the finalizer to PavStaging %s", s.Staging.Name)
	case rules.Release:
		patch, err := steps.RemoveFinalizer(s.Staging, wellknown.PavStagingFinalizer)
		return steps.Again, steps.Wrap(steps.Gone(c.patch(ctx, s, patch, err)), "remove the finalizer of PavStaging %s", s.Staging.Name)
	case rules.Delete:
		err := c.Clients.Stagings.Delete(ctx, s.Staging.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.Staging.UID, ResourceVersion: &s.Staging.ResourceVersion}})
		if err == nil {
			c.report(s, step.Event)
		}
		return steps.Again, steps.Wrap(steps.Gone(err), "delete PavStaging %s", s.Staging.Name)
	default:
		return 0, fmt.Errorf("unknown step %T", step)
	}
}

func (c *Controller) patch(ctx context.Context, s *situation, patch []byte, err error) error {
	if err != nil {
		return err
	}
	staging, err := c.Clients.Stagings.Patch(ctx, s.Staging.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		c.written.Mutation(staging)
	}
	return err
}

// begin writes an attempt, with copies of what it depends on, unless another node has got a volume that
// one node can use at a time.
func (c *Controller) begin(ctx context.Context, s *situation, step rules.Begin) error {
	if rules.OneNode(s.PV()) {
		key := steps.HandleKey(s.Staging.Spec.Provisioner, s.Staging.Spec.Handle)
		c.beginning.LockKey(key)
		defer func() { _ = c.beginning.UnlockKey(key) }()
		if node, err := c.stagedOn(ctx, s.Staging, true); err != nil || node != "" {
			return err // its write has the staging reconciled again
		}
	}
	node := s.Node.DeepCopy()
	node.Status.Images = nil
	copies := map[*runtime.RawExtension]struct {
		object metav1.Object
		kind   string
	}{
		&step.Status.Claim: {s.Claim.DeepCopy(), "PersistentVolumeClaim"}, &step.Status.Volume: {s.PV().DeepCopy(), "PersistentVolume"}, &step.Status.Node: {node, "Node"},
	}
	for raw, of := range copies {
		of.object.SetManagedFields(nil)
		shape, err := steps.Unstructured(of.object, of.kind, "v1")
		if err == nil {
			raw.Raw, err = json.Marshal(shape)
		}
		if err != nil {
			return fmt.Errorf("encode the %s of PavStaging %s: %w", of.kind, s.Staging.Name, err)
		}
	}
	return c.record(ctx, s, rules.Record{Status: step.Status})
}

// record writes the status of the staging, and reports the event.
func (c *Controller) record(ctx context.Context, s *situation, step rules.Record) error {
	staging := s.Staging.DeepCopy()
	staging.Status = step.Status
	staging, err := c.Clients.Stagings.UpdateStatus(ctx, staging, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write the status of PavStaging %s: %w", s.Staging.Name, err)
	}
	c.written.Mutation(staging)
	c.observe(s, staging)
	klog.FromContext(ctx).V(2).Info("Recorded the state of a staging", "staging", klog.KRef("", staging.Name), logkeys.Volume, klog.KRef("", staging.Status.VolumeName), "phase", staging.Status.Phase, logkeys.Reason, step.Event.Reason)
	c.report(s, step.Event)
	s.Staging = staging
	return nil
}

// report reports an event on the claim, or on the PavStaging if there is no claim.
func (c *Controller) report(s *situation, event rules.Event) {
	if event.Reason == "" || event.ConditionOnly {
		return
	}
	kind := corev1.EventTypeWarning
	if event.Normal {
		kind = corev1.EventTypeNormal
	}
	var on, related runtime.Object = s.Staging, nil
	if s.Claim != nil {
		on, related = s.Claim, s.Staging
	}
	c.Events.Eventf(on, related, kind, string(event.Reason), actionStage, "%s", event.Message)
}

// createPod creates the helper pod, and records its UID, or why it was not created.
func (c *Controller) createPod(ctx context.Context, s *situation) error {
	creation, err := c.CreatePod(ctx, s.helper)
	if creation.Refused != "" && s.helper.Spec.PriorityClassName == priorityClass {
		refused := creation.Refused
		pod := s.helper.DeepCopy()
		pod.Spec.PriorityClassName = ""
		if creation, err = c.CreatePod(ctx, pod); creation.UID != "" {
			c.report(s, rules.Event{Reason: rules.NoPriority, Message: fmt.Sprintf("pod %s has no PriorityClass, because it was refused with %s: %s", klog.KObj(pod), priorityClass, refused)})
		}
	}
	switch {
	case creation.Refused != "":
		c.ObserveOutcome(s.Staging.Status.Step, metrics.PavRefused)
		return c.record(ctx, s, rules.PodRefused(&s.Facts, creation.Refused))
	case creation.Uncertain != "":
		return errors.Join(err, c.record(ctx, s, rules.PodNotCreated(&s.Facts, creation.Uncertain)))
	case err != nil:
		return err
	}
	return c.record(ctx, s, rules.PodCreated(&s.Facts, creation.UID))
}
