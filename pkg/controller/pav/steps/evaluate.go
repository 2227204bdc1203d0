// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/render"
)

// Spec returns the spec that a ControllerRevision holds, or why it cannot. repair is what to do then.
func (s *Steps) Spec(name, repair string) (spec *stowage.PavProvisionerSpec, problem string) {
	object, exists, err := s.Revisions.GetStore().GetByKey(s.Namespace + "/" + name)
	revision, ok := object.(*appsv1.ControllerRevision)
	if err != nil || !exists || !ok {
		return nil, fmt.Sprintf("ControllerRevision %s/%s, which has the provisioner's spec for this volume, does not exist: %s", s.Namespace, name, repair)
	}
	spec = &stowage.PavProvisionerSpec{}
	if err := json.Unmarshal(revision.Data.Raw, spec); err != nil {
		return nil, fmt.Sprintf("ControllerRevision %s/%s cannot be read: %v", s.Namespace, name, err)
	}
	return spec, ""
}

// Request returns what the evaluation of a step depends on. An error is a *render.Error.
func (s *Steps) Request(ctx context.Context, spec *stowage.PavProvisionerSpec, step stowage.PavStepName, objects render.Objects) (render.Request, error) {
	variables, err := render.Variables(step, objects)
	return render.Request{
		Spec: spec, Variables: variables,
		GetClaim: func(namespace, name string) (map[string]any, error) {
			other, err := s.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return Unstructured(other, "PersistentVolumeClaim", "v1")
		},
	}, err
}

// Unstructured returns an object in the shape of JSON, as the API server returns it.
func Unstructured(object any, kind, version string) (map[string]any, error) {
	shape, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert a %s: %w", kind, err)
	}
	shape["kind"], shape["apiVersion"] = kind, version
	return shape, nil
}

// Build returns the helper pod of a step, or why the template is refused. namespace is the claim's.
// Image and namespaces of config are set.
func (s *Steps) Build(spec *stowage.PavProvisionerSpec, template *corev1.PodTemplateSpec, config helperpod.Config, namespace string) (pod *corev1.Pod, problem string) {
	config.Image, config.Namespace, config.Namespaces = s.ReporterImage, s.Namespace, spec.PodNamespaces.Names
	if spec.PodNamespaces.Claim {
		config.Namespaces = append(slices.Clone(config.Namespaces), namespace)
	}
	pod, errs := helperpod.Build(template, config)
	if len(errs) > 0 {
		return nil, errs.ToAggregate().Error()
	}
	return pod, ""
}

// NotAccepted returns why a provisioner is not accepted; empty if it is, or was not validated yet.
func NotAccepted(p *stowage.PavProvisioner) string {
	accepted := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionAccepted)
	if p.DeletionTimestamp != nil || accepted == nil || accepted.Status == metav1.ConditionTrue {
		return ""
	}
	return accepted.Message
}

// Owner returns the owner reference of helper pods.
func Owner(object metav1.Object, kind string) metav1.OwnerReference {
	owner := *metav1.NewControllerRef(object, stowage.SchemeGroupVersion.WithKind(kind))
	owner.BlockOwnerDeletion = nil
	return owner
}

// Defaults of specs that were stored without the defaults of the schema.
const (
	defaultTimeout    = 10 * time.Minute
	defaultBackoff    = 5 * time.Second
	defaultBackoffMax = 5 * time.Minute
)

// LimitsOf returns the limits of a step.
func LimitsOf(spec *stowage.PavProvisionerSpec, step stowage.PavStepName) podstep.Limits {
	timeout := map[stowage.PavStepName]stowage.PositiveDuration{
		stowage.PavStepValidation: spec.Timeouts.Validation, stowage.PavStepCreation: spec.Timeouts.Creation, stowage.PavStepDeletion: spec.Timeouts.Deletion,
		stowage.PavStepStaging: spec.Timeouts.Staging, stowage.PavStepUnstaging: spec.Timeouts.Unstaging,
	}[step]
	or := func(d stowage.PositiveDuration, other time.Duration) time.Duration {
		if d.Duration.Duration > 0 {
			return d.Duration.Duration
		}
		return other
	}
	return podstep.Limits{
		Timeout:      or(timeout, defaultTimeout),
		BackoffFirst: or(spec.Backoff.Initial, defaultBackoff), BackoffLast: or(spec.Backoff.Max, defaultBackoffMax),
	}
}
