// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/render"
)

// specOf returns the spec that a ControllerRevision holds, or why it cannot.
func (c *Controller) specOf(name string) (spec *stowage.PavProvisionerSpec, problem string) {
	return c.Spec(name, "set spec.useRevision of the PavVolume to Latest to delete it by the current one")
}

// evaluate evaluates the step that the decision depends on.
func (c *Controller) evaluate(ctx context.Context, s *situation) error {
	step := rules.EvaluatedStep(s.Volume)
	last := ""
	if s.Provisioner != nil {
		last = s.Provisioner.Revision
	}
	s.Limits = steps.LimitsOf(&stowage.PavProvisionerSpec{}, step)
	name := rules.RevisionOf(s.Volume, last)
	if name == "" {
		return nil // no revision was accepted
	}
	spec, problem := c.specOf(name)
	if spec == nil {
		s.Evaluated.Problem = problem
		return nil
	}
	s.Limits = steps.LimitsOf(spec, step)
	claim, class := s.Claim, s.Class // of the next attempt
	if s.Volume != nil && s.Volume.Status.Phase != stowage.PavVolumePending && s.Volume.Status.Phase != "" {
		claim, class = s.Made.Claim, s.Made.Class
	}
	if step == "" || claim == nil || class == nil {
		return nil
	}
	request, err := c.request(ctx, spec, step, claim, class)
	if err == nil {
		err = s.render(request, step)
	}
	if reason := (*render.Error)(nil); errors.As(err, &reason) {
		s.Evaluated.Problem = reason.Error()
		return nil
	}
	if err != nil || s.helper == nil {
		return err
	}
	c.makeHelper(s, spec, claim.Namespace)
	return nil
}

// request returns what the evaluation of a step depends on. An error may be a *render.Error.
func (c *Controller) request(ctx context.Context, spec *stowage.PavProvisionerSpec, step stowage.PavStepName, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (render.Request, error) {
	claimObject, err := steps.Unstructured(claim, "PersistentVolumeClaim", "v1")
	if err != nil {
		return render.Request{}, err
	}
	classObject, err := steps.Unstructured(class, "StorageClass", "storage.k8s.io/v1")
	if err != nil {
		return render.Request{}, err
	}
	return c.Request(ctx, spec, step, render.Objects{Claim: claimObject, Class: classObject})
}

// render evaluates a step. helper is then a pod that has the step's template. An error is a
// *render.Error.
func (s *situation) render(request render.Request, step stowage.PavStepName) error {
	var template *corev1.PodTemplateSpec
	switch step {
	case stowage.PavStepValidation:
		v, err := render.Validation(request)
		if err != nil {
			return err
		}
		template = v.PodTemplate
		for _, mode := range v.VolumeModes {
			s.Evaluated.VolumeModes = append(s.Evaluated.VolumeModes, corev1.PersistentVolumeMode(mode))
		}
		for _, mode := range v.AccessModes {
			s.Evaluated.AccessModes = append(s.Evaluated.AccessModes, corev1.PersistentVolumeAccessMode(mode))
		}
		s.Evaluated.MinCapacity, s.Evaluated.MaxCapacity = bytesOf(v.MinCapacity), bytesOf(v.MaxCapacity)
	case stowage.PavStepCreation:
		v, err := render.Creation(request)
		if err != nil {
			return err
		}
		template = v.PodTemplate
		if s.Evaluated.Capacity = bytesOf(v.Capacity); v.Handle != "" {
			s.Evaluated.Handle = &v.Handle
		}
	default:
		v, err := render.Deletion(request)
		if err != nil {
			return err
		}
		template = v.PodTemplate
	}
	if s.Evaluated.HasPod = template != nil; template != nil {
		s.helper = &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	}
	return nil
}

// makeHelper replaces helper, which has a template, by the pod that is made from it.
func (c *Controller) makeHelper(s *situation, spec *stowage.PavProvisionerSpec, namespace string) {
	config := helperpod.Config{Step: podstep.HelperStep(rules.EvaluatedStep(s.Volume)), Attempt: 1}
	if s.Volume != nil {
		config.Provisioner, config.Owner = s.Volume.Spec.Provisioner, steps.Owner(s.Volume, volumeKind)
		if s.Made.Access.SelectedNode {
			config.Node = s.Volume.Spec.NodeName
		}
		if step := s.Volume.Status.Step; step != nil {
			config.Attempt = step.Attempt
		}
	}
	template := &corev1.PodTemplateSpec{ObjectMeta: s.helper.ObjectMeta, Spec: s.helper.Spec}
	pod, problem := c.Build(spec, template, config, namespace)
	if problem != "" {
		s.Evaluated.Problem = problem
		return
	}
	s.helper, s.Evaluated.Namespace = pod, pod.Namespace
}

func bytesOf(q *resource.Quantity) *int64 {
	if q == nil {
		return nil
	}
	return new(q.Value())
}
