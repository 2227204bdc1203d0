// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// ErrNoNode means that the pod fits no node.
var ErrNoNode = errors.New("the pod fits no node")

// Place runs a scheduling cycle for a pod, which becomes an object of the simulation, and returns the node that
// the scheduler chooses. The pod is assumed there, and its volumes are reserved, so that the next pod is placed
// beside it. Pods are not preempted. The error is ErrNoNode if no node fits.
func (s *Simulator) Place(ctx context.Context, pod *corev1.Pod) (node string, err error) {
	ctx = silent(ctx)
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

// Reserved returns the volumes that Place reserved for a pod, by claim: an existing volume, or "" for one that
// is to be provisioned on the pod's node. Claims that are bound are not among them. known is false if the profile
// does not use VolumeTopology: then the simulation does not show which volumes are reserved.
func (s *Simulator) Reserved(pod *corev1.Pod) (volumes map[types.NamespacedName]string, known bool) {
	if s.volumes == nil {
		return nil, false
	}
	return s.volumes.Reserved(pod.UID), true
}

// Free returns the storage of a class that nothing has or reserves on any of the nodes. known is as in Reserved.
func (s *Simulator) Free(class string, nodes []*corev1.Node) (free volumecache.FreeStorage, known bool) {
	if s.volumes == nil {
		return free, false
	}
	return s.volumes.FreeOn(class, nodes), true
}

// Try is Set; undo restores the object of that name, or removes it.
func (s *Simulator) Try(object snapshot.Object) (undo func()) {
	informer := s.informers[reflect.TypeOf(object)]
	old, exists, _ := informer.indexer.Get(object)
	informer.set(object)
	return func() {
		if exists {
			informer.set(old)
		} else {
			informer.remove(object)
		}
	}
}
