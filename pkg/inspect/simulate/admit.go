// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"stowage.dev/stowage/pkg/scheduling/claims"
)

// AdmitPod returns the pod as an API server would store it, as far as a scheduler reads it: with default values,
// the priority of its class, and the tolerations that admission adds. Webhooks, admission policies, LimitRanges,
// ResourceQuotas and the overhead of a RuntimeClass are not applied. The error is why an API server would refuse
// the pod.
func AdmitPod(pod *corev1.Pod, classes []*schedulingv1.PriorityClass) (*corev1.Pod, error) {
	pod = pod.DeepCopy()
	defaults.SetObjectDefaults_Pod(pod)
	priority, err := priorityOf(pod.Spec.PriorityClassName, classes)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = &priority
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerates := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		})
		if !tolerates {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
			})
		}
	}
	converted := &core.Pod{}
	if err := defaults.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), converted, nil); err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&converted.Spec, nil, &converted.ObjectMeta, nil)
	if err := validation.ValidatePodCreate(converted, options).ToAggregate(); err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	return pod, nil
}

// priorityOf returns the priority of a class, or that of pods without one.
func priorityOf(name string, classes []*schedulingv1.PriorityClass) (int32, error) {
	switch name {
	case "system-node-critical":
		return 2_000_001_000, nil
	case "system-cluster-critical":
		return 2_000_000_000, nil
	}
	for _, c := range classes {
		if c.Name == name || name == "" && c.GlobalDefault {
			return c.Value, nil
		}
	}
	if name == "" {
		return 0, nil
	}
	return 0, fmt.Errorf("spec.priorityClassName: there is no PriorityClass %q", name)
}

// AdmitClaim returns the claim as an API server would store it: with default values and the default class. The
// error is why an API server would refuse the claim.
func AdmitClaim(claim *corev1.PersistentVolumeClaim, classes []*storagev1.StorageClass) (*corev1.PersistentVolumeClaim, error) {
	claim = claim.DeepCopy()
	defaults.SetObjectDefaults_PersistentVolumeClaim(claim)
	if !claims.HasClass(claim) {
		if class := claims.DefaultClass(classes); class != nil {
			claim.Spec.StorageClassName = &class.Name
		}
	}
	converted := &core.PersistentVolumeClaim{}
	if err := defaults.Convert_v1_PersistentVolumeClaim_To_core_PersistentVolumeClaim(claim.DeepCopy(), converted, nil); err != nil {
		return nil, fmt.Errorf("claim %s: %w", claim.Name, err)
	}
	options := validation.ValidationOptionsForPersistentVolumeClaim(converted, nil)
	if err := validation.ValidatePersistentVolumeClaim(converted, options).ToAggregate(); err != nil {
		return nil, fmt.Errorf("claim %s: %w", claim.Name, err)
	}
	return claim, nil
}
