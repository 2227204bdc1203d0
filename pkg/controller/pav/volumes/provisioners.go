// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/pav/render"
)

// revisionHistory is how many revisions of a provisioner are kept besides those that volumes need.
const revisionHistory = 10

// Reasons of the condition Accepted.
const (
	reasonAccepted  = "Accepted"
	reasonInvalid   = "InvalidSpec"
	reasonDriver    = "CSIDriverNotOwned"
	reasonRevision  = "RevisionNotOwned"
	reasonDeleting  = "Deleting"
	actionValidate  = "Validate"
	maxShownInvalid = 5
)

// reconcileProvisioner validates a provisioner, and writes its revision and CSIDriver; or removes
// these once it is being deleted and has no volumes.
func (c *Controller) reconcileProvisioner(ctx context.Context, name string) (time.Duration, error) {
	object, exists, err := c.Provisioners.GetStore().GetByKey(name)
	p, ok := object.(*stowage.PavProvisioner)
	if err != nil || !exists || !ok {
		return 0, err
	}
	if p.DeletionTimestamp != nil {
		err = c.finishProvisioner(ctx, p)
	} else {
		err = c.acceptProvisioner(ctx, p)
	}
	return 0, steps.Stale(err)
}

// acceptProvisioner sets the condition Accepted.
func (c *Controller) acceptProvisioner(ctx context.Context, p *stowage.PavProvisioner) error {
	if !slices.Contains(p.Finalizers, wellknown.PavProvisionerFinalizer) {
		patch, err := steps.AddFinalizer(p, wellknown.PavProvisionerFinalizer)
		if err == nil {
			_, err = c.Clients.Provisioners.Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return steps.Wrap(err, "add the finalizer to PavProvisioner %s", p.Name) // its event has the next step follow
	}
	if invalid := render.Check(&p.Spec); len(invalid) > 0 {
		var messages []string
		for _, err := range invalid[:min(len(invalid), maxShownInvalid)] {
			messages = append(messages, err.Error())
		}
		if more := len(invalid) - len(messages); more > 0 {
			messages = append(messages, fmt.Sprintf("and %d more", more))
		}
		return c.judge(ctx, p, "", reasonInvalid, strings.Join(messages, "; "))
	}
	revision, problem, err := c.writeRevision(ctx, p)
	if problem != "" {
		return errors.Join(err, c.judge(ctx, p, "", reasonRevision, problem))
	}
	if err != nil {
		return err
	}
	problem, err = c.writeDriver(ctx, p)
	if problem != "" {
		return errors.Join(err, c.judge(ctx, p, "", reasonDriver, problem))
	}
	if err != nil {
		return err
	}
	if err := c.judge(ctx, p, revision, reasonAccepted, ""); err != nil {
		return err
	}
	return c.removeRevisions(ctx, p, revision)
}

// judge writes the status of a provisioner. It is accepted if there is a revision.
func (c *Controller) judge(ctx context.Context, p *stowage.PavProvisioner, revision, reason, message string) error {
	changed := p.DeepCopy()
	status := metav1.ConditionFalse
	if revision != "" {
		status, changed.Status.Revision = metav1.ConditionTrue, revision
	}
	changed.Status.ObservedGeneration = p.Generation
	news := meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
		Type: stowage.ConditionAccepted, Status: status, ObservedGeneration: p.Generation,
		Reason: reason, Message: stowage.FitMessage(message), LastTransitionTime: metav1.NewTime(c.Now()),
	})
	if equality.Semantic.DeepEqual(p.Status, changed.Status) {
		return nil
	}
	if _, err := c.Clients.Provisioners.UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write the status of PavProvisioner %s: %w", p.Name, err)
	}
	if news && status == metav1.ConditionFalse {
		c.Events.Eventf(p, nil, corev1.EventTypeWarning, reason, actionValidate, "%s", message)
	}
	return nil
}

// writeRevision creates the ControllerRevision of a provisioner's spec. Its name has a hash of the
// spec, so the same spec has the same revision. It has no owner: volumes need it for as long as
// they exist. A revision of that name which is not the provisioner's is a problem, and an error, so that
// it is tried again: the informer, which selects by label, does not have its deletion.
func (c *Controller) writeRevision(ctx context.Context, p *stowage.PavProvisioner) (name, problem string, err error) {
	data, err := json.Marshal(&p.Spec)
	if err != nil {
		return "", "", fmt.Errorf("encode the spec of PavProvisioner %s: %w", p.Name, err)
	}
	hash := sha256.Sum256(data)
	name = p.Name + "-" + hex.EncodeToString(hash[:16])
	object, exists, err := c.Revisions.GetStore().GetByKey(c.Namespace + "/" + name)
	revision, ok := object.(*appsv1.ControllerRevision)
	if err == nil && !(exists && ok) {
		revision, err = c.createRevision(ctx, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: map[string]string{wellknown.PavProvisionerLabel: p.Name}},
			Data:       runtime.RawExtension{Raw: data}, Revision: p.Generation,
		})
	}
	if err != nil {
		return "", "", fmt.Errorf("create ControllerRevision %s/%s: %w", c.Namespace, name, err)
	}
	if revision.Labels[wellknown.PavProvisionerLabel] != p.Name || !holds(revision, data) {
		problem = fmt.Sprintf("ControllerRevision %s/%s exists, and has other content or no label %s=%s: delete it", c.Namespace, name, wellknown.PavProvisionerLabel, p.Name)
		return "", problem, fmt.Errorf("PavProvisioner %s: %s", p.Name, problem)
	}
	return name, "", nil
}

// createRevision returns the revision of that name that exists.
func (c *Controller) createRevision(ctx context.Context, revision *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	revisions := c.Client.AppsV1().ControllerRevisions(c.Namespace)
	created, err := revisions.Create(ctx, revision, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return revisions.Get(ctx, revision.Name, metav1.GetOptions{})
	}
	return created, err
}

// holds reports whether a revision has a spec, given as JSON.
func holds(revision *appsv1.ControllerRevision, data []byte) bool {
	spec := &stowage.PavProvisionerSpec{}
	if err := json.Unmarshal(revision.Data.Raw, spec); err != nil {
		return false
	}
	same, err := json.Marshal(spec)
	return err == nil && bytes.Equal(same, data)
}

// removeRevisions deletes old revisions that no volume needs.
func (c *Controller) removeRevisions(ctx context.Context, p *stowage.PavProvisioner, current string) error {
	needed := sets.New(current)
	for _, volume := range loop.List[stowage.PavVolume](c.Volumes, steps.ByProvisioner, p.Name) {
		needed.Insert(volume.Spec.Revision)
		if step := volume.Status.Step; step != nil {
			needed.Insert(step.Revision)
		}
	}
	for _, staging := range loop.List[stowage.PavStaging](c.Stagings, steps.ByProvisioner, p.Name) {
		needed.Insert(staging.Status.Revision)
		if step := staging.Status.Step; step != nil {
			needed.Insert(step.Revision)
		}
	}
	unneeded := slices.DeleteFunc(c.revisionsOf(p.Name), func(r *appsv1.ControllerRevision) bool { return needed.Has(r.Name) })
	slices.SortFunc(unneeded, func(a, b *appsv1.ControllerRevision) int { return int(b.Revision - a.Revision) })
	return c.deleteRevisions(ctx, unneeded[min(len(unneeded), revisionHistory):])
}

func (c *Controller) revisionsOf(provisioner string) []*appsv1.ControllerRevision {
	return slices.DeleteFunc(loop.List[appsv1.ControllerRevision](c.Revisions, "", ""), func(r *appsv1.ControllerRevision) bool {
		return r.Labels[wellknown.PavProvisionerLabel] != provisioner
	})
}

func (c *Controller) deleteRevisions(ctx context.Context, revisions []*appsv1.ControllerRevision) error {
	var problems error
	for _, r := range revisions {
		err := c.Client.AppsV1().ControllerRevisions(c.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}})
		problems = errors.Join(problems, steps.Wrap(steps.Gone(err), "delete ControllerRevision %s/%s", r.Namespace, r.Name))
	}
	return problems
}

// writeDriver creates or updates the CSIDriver of a provisioner, or returns why it cannot. It tracks
// capacity only once that is published: without the objects no claim could be placed.
func (c *Controller) writeDriver(ctx context.Context, p *stowage.PavProvisioner) (problem string, err error) {
	policy := p.Spec.FSGroupPolicy
	if policy == "" {
		policy = storagev1.NoneFSGroupPolicy
	}
	tracks := p.Spec.StorageCapacity != nil && meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionCapacityPublished) != nil
	want := storagev1.CSIDriverSpec{
		AttachRequired: new(false), PodInfoOnMount: new(false), SELinuxMount: new(false), RequiresRepublish: new(false), StorageCapacity: &tracks,
		FSGroupPolicy: &policy, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
	}
	drivers := c.Client.StorageV1().CSIDrivers()
	driver, err := steps.Found(drivers.Get(ctx, p.Name, metav1.GetOptions{}))
	switch {
	case err != nil:
		return "", fmt.Errorf("get CSIDriver %s: %w", p.Name, err)
	case driver == nil:
		owner := *metav1.NewControllerRef(p, stowage.SchemeGroupVersion.WithKind("PavProvisioner"))
		owner.BlockOwnerDeletion = nil
		_, err = drivers.Create(ctx, &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, OwnerReferences: []metav1.OwnerReference{owner}}, Spec: want,
		}, metav1.CreateOptions{})
		return "", steps.Wrap(err, "create CSIDriver %s", p.Name)
	case !metav1.IsControlledBy(driver, p):
		return fmt.Sprintf("CSIDriver %s exists and is not owned by this PavProvisioner: delete it, or name the provisioner otherwise", p.Name), nil
	case ptr.Equal(driver.Spec.FSGroupPolicy, &policy) && ptr.Equal(driver.Spec.StorageCapacity, &tracks):
		return "", nil
	}
	driver.Spec.FSGroupPolicy, driver.Spec.StorageCapacity = &policy, &tracks // all other fields are the same for all provisioners
	_, err = drivers.Update(ctx, driver, metav1.UpdateOptions{})
	return "", steps.Wrap(err, "update CSIDriver %s", p.Name)
}

// finishProvisioner removes what a provisioner has, and its finalizer, once no volume needs it.
func (c *Controller) finishProvisioner(ctx context.Context, p *stowage.PavProvisioner) error {
	if !slices.Contains(p.Finalizers, wellknown.PavProvisionerFinalizer) {
		return nil
	}
	left := sets.New[string]()
	for _, volume := range loop.List[stowage.PavVolume](c.Volumes, steps.ByProvisioner, p.Name) {
		left.Insert(volume.Name)
	}
	for _, pv := range loop.List[corev1.PersistentVolume](c.PVs, steps.ByProvisioner, p.Name) {
		left.Insert(pv.Name)
	}
	for _, staging := range loop.List[stowage.PavStaging](c.Stagings, steps.ByProvisioner, p.Name) {
		left.Insert(staging.Name)
	}
	if left.Len() == 0 { // the informer may not have the last ones yet
		volumes, err := c.Clients.Volumes.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list PavVolumes: %w", err)
		}
		for _, volume := range volumes.Items {
			if volume.Spec.Provisioner == p.Name {
				left.Insert(volume.Name)
			}
		}
	}
	if left.Len() > 0 {
		return c.judge(ctx, p, "", reasonDeleting, fmt.Sprintf("is deleted once it has no PersistentVolumes, PavVolumes and PavStagings: %d are left, among them %s", left.Len(), sets.List(left)[0]))
	}
	if err := c.deleteRevisions(ctx, c.revisionsOf(p.Name)); err != nil {
		return err
	}
	driver, err := steps.Found(c.Client.StorageV1().CSIDrivers().Get(ctx, p.Name, metav1.GetOptions{}))
	if err == nil && driver != nil && metav1.IsControlledBy(driver, p) {
		err = steps.Gone(c.Client.StorageV1().CSIDrivers().Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &driver.UID}}))
	}
	if err != nil {
		return fmt.Errorf("delete CSIDriver %s: %w", p.Name, err)
	}
	patch, err := steps.RemoveFinalizer(p, wellknown.PavProvisionerFinalizer)
	if err == nil {
		_, err = c.Clients.Provisioners.Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return steps.Wrap(steps.Gone(err), "remove the finalizer of PavProvisioner %s", p.Name)
}
