// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
)

// program is what the helper pods of a provisioner do: it returns what the pod leaves in /pav, and
// its exit code. number counts the pods of the step.
type program func(step helperpod.Step, number int) (r report.Report, code int32)

// programs are those of the tests' provisioners, by name.
var programs sync.Map

// kubelet ends each helper pod at once, as its program does.
type kubelet struct {
	client kubernetes.Interface
	counts map[string]int // pods by provisioner and step
}

func newKubelet(client kubernetes.Interface) *kubelet {
	return &kubelet{client: client, counts: map[string]int{}}
}

func (k *kubelet) run(ctx context.Context) error {
	pods := k.client.CoreV1().Pods(metav1.NamespaceAll)
	selected := func(o metav1.ListOptions) metav1.ListOptions { o.LabelSelector = wellknown.PavOwnerLabel; return o }
	_, err := watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, selected(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, selected(o))
		},
	}, &corev1.Pod{}, nil, func(e watch.Event) (bool, error) {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || e.Type == watch.Deleted || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
			return false, nil
		}
		return false, k.end(ctx, pod)
	})
	return err
}

// end writes the status of a pod whose containers have ended.
func (k *kubelet) end(ctx context.Context, pod *corev1.Pod) error {
	provisioner, step := pod.Labels[wellknown.PavProvisionerLabel], pod.Labels[wellknown.PavStepLabel]
	found, ok := programs.Load(provisioner)
	if !ok {
		return nil
	}
	k.counts[provisioner+step]++
	r, code := found.(program)(helperpod.Step(step), k.counts[provisioner+step])
	message, err := report.Encode(r, report.Limit(len(pod.Spec.InitContainers)+len(pod.Spec.Containers)))
	if err != nil {
		return fmt.Errorf("encode a report: %w", err)
	}
	ended := func(name, message string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, StartedAt: metav1.Now(), FinishedAt: metav1.Now(), Message: message,
		}}}
	}
	changed := pod.DeepCopy()
	if changed.Status.Phase = corev1.PodSucceeded; code != 0 {
		changed.Status.Phase = corev1.PodFailed
	}
	changed.Status.InitContainerStatuses = []corev1.ContainerStatus{ended(helperpod.ReporterName, message, 0)}
	for _, c := range pod.Spec.Containers {
		changed.Status.ContainerStatuses = append(changed.Status.ContainerStatuses, ended(c.Name, "", code))
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
