// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// ErrNoNode means that the pod fits no node.
var ErrNoNode = errors.New("the pod fits no node")

// Place runs a scheduling cycle for a pod, which becomes an object of the simulation, and returns the node that
// the scheduler chooses. The pod is assumed there, and its volumes are reserved, so that the next pod is placed
// beside it. Pods are not preempted. The error is ErrNoNode if no node fits.
func (s *Simulator) Place(ctx context.Context, pod *corev1.Pod) (node string, err error) {
	if _, err := s.refresh(ctx); err != nil {
		return "", err
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return "", fmt.Errorf("read the affinity of pod %s: %w", klog.KObj(pod), err)
	}
	state := framework.NewCycleState()
	result, err := s.scheduler.SchedulePod(ctx, s.framework, state, &framework.QueuedPodInfo{PodInfo: info})
	if _, unfit := errors.AsType[*framework.FitError](err); unfit || errors.Is(err, scheduler.ErrNoNodesAvailable) {
		return "", ErrNoNode
	}
	if err != nil {
		return "", fmt.Errorf("schedule pod %s: %w", klog.KObj(pod), err)
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = result.SuggestedHost
	if err := s.scheduler.Cache.AssumePod(klog.FromContext(ctx), assumed); err != nil {
		return "", fmt.Errorf("assume pod %s: %w", klog.KObj(pod), err)
	}
	status := s.framework.RunReservePluginsReserve(ctx, state, assumed, result.SuggestedHost)
	if status.IsSuccess() {
		return result.SuggestedHost, nil
	}
	s.framework.RunReservePluginsUnreserve(ctx, state, assumed, result.SuggestedHost)
	if err := s.scheduler.Cache.ForgetPod(klog.FromContext(ctx), assumed); err != nil {
		return "", fmt.Errorf("forget pod %s: %w", klog.KObj(pod), err)
	}
	if status.IsRejected() {
		return "", ErrNoNode
	}
	return "", fmt.Errorf("reserve for pod %s on node %s: %w", klog.KObj(pod), result.SuggestedHost, status.AsError())
}

// Set adds an object to the simulation, or replaces the one of its name. Its kind must be one that schedulers read.
func (s *Simulator) Set(object snapshot.Object) { s.informers[reflect.TypeOf(object)].set(object) }

// Remove removes the object of the same name.
func (s *Simulator) Remove(object snapshot.Object) {
	s.informers[reflect.TypeOf(object)].remove(object)
}
