// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/pav/helperpod"
)

// Pod returns the helper pod of an owner's step; nil if there is none. Before "there is none" counts,
// and if live is set, the API server is queried.
func (s *Steps) Pod(ctx context.Context, step *stowage.PavVolumeStep, owner types.UID, live bool) (*podstep.Pod, error) {
	if step == nil {
		return nil, nil
	}
	object, exists, err := s.Pods.GetStore().GetByKey(step.PodNamespace + "/" + step.PodName)
	if err != nil {
		return nil, fmt.Errorf("get pod %s/%s from the informer: %w", step.PodNamespace, step.PodName, err)
	}
	pod, _ := object.(*corev1.Pod)
	if !exists || live {
		pod, err = Found(s.Client.CoreV1().Pods(step.PodNamespace).Get(ctx, step.PodName, metav1.GetOptions{}))
		if err != nil {
			return nil, fmt.Errorf("get pod %s/%s: %w", step.PodNamespace, step.PodName, err)
		}
	}
	if pod == nil {
		return nil, nil
	}
	return PodFacts(pod, owner, s.Namespace), nil
}

// PodFacts are the facts about a pod as the helper pod of an owner. namespace is the provisioner
// namespace.
func PodFacts(pod *corev1.Pod, owner types.UID, namespace string) *podstep.Pod {
	outcome := helperpod.OutcomeOf(pod)
	controller := metav1.GetControllerOf(pod)
	facts := &podstep.Pod{
		UID:       pod.UID,
		Adoptable: pod.Namespace == namespace && controller != nil && controller.UID == owner,
		Finalized: slices.Contains(pod.Finalizers, wellknown.PavPodFinalizer),
		Over:      outcome.State != helperpod.Running,
		Ready:     outcome.State == helperpod.Running && pod.DeletionTimestamp == nil && ready(pod),
		Done:      helperpod.Done(pod),
		Result:    podstep.ResultOf(outcome),
		Problem:   podProblem(pod),
	}
	facts.Volume, facts.VolumeProblem = podstep.VolumeOf(outcome)
	if pod.DeletionTimestamp != nil {
		facts.DeletedAt = pod.DeletionTimestamp.Time
		if grace := pod.DeletionGracePeriodSeconds; grace != nil {
			facts.DeletedAt = facts.DeletedAt.Add(-time.Duration(*grace) * time.Second)
		}
	}
	return facts
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// podProblem returns why a pod does not run; empty if it does, or may soon.
func podProblem(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable {
			return "is not scheduled: " + condition.Message
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := status.State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			return fmt.Sprintf("container %s does not run: %s: %s", status.Name, w.Reason, w.Message)
		}
	}
	return ""
}

// Creation is the answer to the creation of a helper pod.
type Creation struct {
	// UID is that of the pod; empty if it was not created.
	UID types.UID
	// Refused is why the API server does not create the pod, which is a result of the step.
	Refused string
	// Uncertain is an answer of the API server, as for a webhook that fails, after which the pod may
	// exist or be created later.
	Uncertain string
}

// CreatePod creates a helper pod. An error leaves open whether the pod exists.
func (s *Steps) CreatePod(ctx context.Context, pod *corev1.Pod) (Creation, error) {
	created, err := s.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsRequestEntityTooLargeError(err):
		return Creation{Refused: err.Error()}, nil
	case err != nil:
		creation := Creation{}
		if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown && reason != metav1.StatusReasonAlreadyExists {
			creation.Uncertain = err.Error()
		}
		return creation, fmt.Errorf("create pod %s: %w", klog.KObj(pod), err)
	}
	klog.FromContext(ctx).V(2).Info("Created a helper pod", logkeys.Pod, klog.KObj(created), "owner", pod.OwnerReferences[0].Name)
	return Creation{UID: created.UID}, nil
}

// DeletePod deletes the helper pod of a step. A pod with another UID stays.
func (s *Steps) DeletePod(ctx context.Context, step *stowage.PavVolumeStep, uid types.UID) error {
	err := s.Client.CoreV1().Pods(step.PodNamespace).Delete(ctx, step.PodName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	return Wrap(Gone(err), "delete pod %s/%s", step.PodNamespace, step.PodName)
}

// ReleasePod removes the finalizer of the helper pod of a step. A pod with another UID stays.
func (s *Steps) ReleasePod(ctx context.Context, step *stowage.PavVolumeStep, uid types.UID) error {
	pod, err := s.Client.CoreV1().Pods(step.PodNamespace).Get(ctx, step.PodName, metav1.GetOptions{})
	if err != nil {
		return Wrap(Gone(err), "get pod %s/%s", step.PodNamespace, step.PodName)
	}
	if pod.UID != uid {
		return nil
	}
	return s.release(ctx, pod)
}

func (s *Steps) release(ctx context.Context, pod *corev1.Pod) error {
	patch, err := RemoveFinalizer(pod, wellknown.PavPodFinalizer)
	if err == nil {
		_, err = s.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return Wrap(Gone(err), "remove the finalizer of pod %s", klog.KObj(pod))
}

// RemoveStrays deletes helper pods of an owner of which no object has the UID that they have: its
// finalizer was removed by hand. known is the UID of the owner in a cache, empty if it has none; live
// reads it from the API server. RemoveStrays reports whether there are any strays.
func (s *Steps) RemoveStrays(ctx context.Context, owner string, known types.UID, live func() (types.UID, error)) (strays bool, err error) {
	othersThan := func(uid types.UID, pods []*corev1.Pod) []*corev1.Pod {
		return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return uid != "" && metav1.GetControllerOf(pod).UID == uid })
	}
	pods := othersThan(known, loop.List[corev1.Pod](s.Pods, ByOwner, owner))
	if len(pods) == 0 {
		return false, nil
	}
	uid, err := live()
	if err != nil {
		return false, err
	}
	pods = othersThan(uid, pods)
	for _, pod := range pods {
		switch {
		case pod.DeletionTimestamp == nil:
			err = s.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		case helperpod.OutcomeOf(pod).State != helperpod.Running:
			err = s.release(ctx, pod)
		}
		if err = Wrap(Gone(err), "remove pod %s, whose owner %s is gone", klog.KObj(pod), owner); err != nil {
			break
		}
	}
	return len(pods) > 0, err
}
