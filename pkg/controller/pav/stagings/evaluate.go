// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package stagings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/pavdir"
	"stowage.dev/stowage/pkg/pav/render"
)

// priorityClass is that of staging and unstaging pods whose template names none. Pods of it never
// preempt: the pod that waits for the volume could be the one.
const priorityClass = "stowage-pav"

// evaluate evaluates the step that the decision depends on, from the copies of objects in the status.
func (c *Controller) evaluate(ctx context.Context, s *situation) error {
	step := rules.EvaluatedStep(s.Staging)
	s.Limits = steps.LimitsOf(&stowage.PavProvisionerSpec{}, step)
	if step == "" {
		return nil
	}
	last := ""
	if s.Provisioner != nil {
		last = s.Provisioner.Revision
	}
	spec, problem := c.Spec(rules.RevisionOf(s.Staging, last, s.Volume), "set spec.useRevision of the PavStaging to Latest to unstage it by the current one")
	if spec == nil {
		s.Evaluated.Problem = problem
		return nil
	}
	s.Limits = steps.LimitsOf(spec, step)
	objects, err := objectsOf(s.Staging, step)
	if err != nil {
		return err
	}
	request, err := c.Request(ctx, spec, step, objects)
	var template *corev1.PodTemplateSpec
	if err == nil {
		template, err = s.render(request, step)
	}
	if reason := (*render.Error)(nil); errors.As(err, &reason) {
		s.Evaluated.Problem = reason.Error()
		return nil
	}
	if err != nil || template == nil {
		return err
	}
	return c.makeHelper(s, spec, template)
}

// objectsOf returns the objects of a step from the status.
func objectsOf(staging *stowage.PavStaging, step stowage.PavStepName) (render.Objects, error) {
	var objects render.Objects
	status := &staging.Status
	decode := map[*map[string]any]runtime.RawExtension{&objects.Volume: status.Volume}
	if step != stowage.PavStepValidation { // of a static volume
		decode[&objects.Claim], decode[&objects.Node] = status.Claim, status.Node
	}
	for object, raw := range decode {
		if err := utiljson.Unmarshal(raw.Raw, object); err != nil {
			return objects, fmt.Errorf("decode the status of PavStaging %s: %w", staging.Name, err)
		}
	}
	return objects, nil
}

// render evaluates a step, and returns its template, or nil if it has none. An error is a *render.Error.
func (s *situation) render(request render.Request, step stowage.PavStepName) (*corev1.PodTemplateSpec, error) {
	switch step {
	case stowage.PavStepValidation:
		v, err := render.Validation(request)
		if err != nil {
			return nil, err
		}
		for _, mode := range v.VolumeModes {
			s.Evaluated.VolumeModes = append(s.Evaluated.VolumeModes, corev1.PersistentVolumeMode(mode))
		}
		for _, mode := range v.AccessModes {
			s.Evaluated.AccessModes = append(s.Evaluated.AccessModes, corev1.PersistentVolumeAccessMode(mode))
		}
		s.Evaluated.MinCapacity, s.Evaluated.MaxCapacity = bytesOf(v.MinCapacity), bytesOf(v.MaxCapacity)
		return v.PodTemplate, nil
	case stowage.PavStepStaging:
		v, err := render.Staging(request)
		if err != nil {
			return nil, err
		}
		return v.PodTemplate, nil
	default:
		v, err := render.Unstaging(request)
		if err != nil {
			return nil, err
		}
		return v.PodTemplate, nil
	}
}

func bytesOf(q *resource.Quantity) *int64 {
	if q == nil {
		return nil
	}
	return new(q.Value())
}

// makeHelper makes the helper pod from the template of the step.
func (c *Controller) makeHelper(s *situation, spec *stowage.PavProvisionerSpec, template *corev1.PodTemplateSpec) error {
	step := rules.EvaluatedStep(s.Staging)
	config := helperpod.Config{
		Step: podstep.HelperStep(step), Attempt: max(1, s.Staging.Status.Attempt),
		Provisioner: s.Staging.Spec.Provisioner, Owner: steps.Owner(s.Staging, stagingKind),
	}
	pv, claim := &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}
	if err := errors.Join(json.Unmarshal(s.Staging.Status.Volume.Raw, pv), json.Unmarshal(s.Staging.Status.Claim.Raw, claim)); err != nil {
		return fmt.Errorf("decode the status of PavStaging %s: %w", s.Staging.Name, err)
	}
	if step != stowage.PavStepValidation {
		config.Node = s.Staging.Spec.NodeName
	}
	if step == stowage.PavStepStaging {
		mode, bytes := rules.WantedMode(pv)
		config.Volume = &helperpod.Volume{
			HostPath: pavdir.AttemptPath(pavdir.StagingRoot, stowage.PavVolumeKey(s.Staging.Spec.Provisioner, s.Staging.Spec.Handle), string(s.Staging.UID), config.Attempt),
			Mode:     mode, Bytes: bytes,
		}
	}
	pod, problem := c.Build(spec, template, config, claim.Namespace)
	if problem != "" {
		s.Evaluated.Problem = problem
		return nil
	}
	if config.Node != "" {
		stayOnNode(&pod.Spec)
	}
	s.helper, s.Evaluated.HasPod, s.Evaluated.Namespace = pod, true, pod.Namespace
	s.Evaluated.Devices = allowedDevices(pod, spec, c.Namespace)
	return nil
}

// stayOnNode has a pod run on its node whatever taints it has, for as long as users of the volume do,
// and be evicted after ordinary pods.
func stayOnNode(spec *corev1.PodSpec) {
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	if spec.PriorityClassName == "" {
		spec.PriorityClassName = priorityClass
	}
}

// allowedDevices returns the block devices that a staging pod may make its volume. A container with
// CAP_MKNOD can make a node of any device of the machine, so pods outside of the provisioner namespace
// are limited to what the provisioner lists.
func allowedDevices(pod *corev1.Pod, spec *stowage.PavProvisionerSpec, namespace string) []string {
	privileged := slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	})
	if privileged && pod.Namespace == namespace {
		return []string{"*"}
	}
	return spec.DeviceAllowList
}
