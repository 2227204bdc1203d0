// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	compat "stowage.dev/kubecompat/plugin"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// EventsToRegister registers the events that can make a pod schedulable that this plugin
// rejected. A hint requeues only the pods that the event helps, after it has updated the
// cache to the event's object. The reservations and releases of other pods are not
// events; see activateOnRelease.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	on := func(resource fwk.EventResource, actions fwk.ActionType, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
		return fwk.ClusterEventWithHint{
			Event:          fwk.ClusterEvent{Resource: resource, ActionType: actions},
			QueueingHintFn: hint,
		}
	}
	return []fwk.ClusterEventWithHint{
		// A missing class, or one that did not allow any node.
		on(fwk.StorageClass, fwk.Add|fwk.Update, hint(p.afterClass)),
		// A missing, lost, deleted or immediate claim, or one whose provisioner removed
		// selected-node.
		on(fwk.PersistentVolumeClaim, fwk.Add|fwk.Update|fwk.Delete, hint(p.afterClaim)),
		// No volume to bind, a missing bound one, or one reserved for a claim where the
		// pod cannot run.
		on(fwk.PersistentVolume, fwk.Add|fwk.Update|fwk.Delete, hint(p.afterVolume)),
		// A node that the volumes or the class allow; or the deletion of the one that a
		// claim was to be provisioned on.
		on(fwk.Node, fwk.Add|fwk.UpdateNodeLabel|fwk.Delete, hint(p.afterNode)),
		// In-tree volumes are now reached through CSI.
		on(fwk.CSINode, fwk.Add|fwk.Update, hint(p.afterCSINode)),
		// The driver no longer tracks capacity.
		on(fwk.CSIDriver, fwk.Update|fwk.Delete, hint(p.afterCSIDriver)),
		// More capacity.
		on(fwk.CSIStorageCapacity, fwk.Add|fwk.Update, hint(p.afterCapacity)),
		// An eviction, perhaps for the pod. A pod that is woken while DefaultPreemption evicts
		// others for it gets no event until one of a plugin that rejected it queues it at the
		// deletion of an assigned pod.
		on(compat.AssignedPod, fwk.Delete, hint(p.afterPod)),
	}, nil
}

// hint adapts a function of typed objects; a side that the event lacks is nil.
func hint[T any](after func(pod *v1.Pod, before, now *T) bool) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
		typedBefore, err := typed[T](before)
		if err != nil {
			return fwk.Queue, err
		}
		typedNow, err := typed[T](now)
		if err != nil {
			return fwk.Queue, err
		}
		if after(pod, typedBefore, typedNow) {
			return fwk.Queue, nil
		}
		return fwk.QueueSkip, nil
	}
}

func typed[T any](object any) (*T, error) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj // deleted while the watch was interrupted
	}
	if object == nil {
		return nil, nil
	}
	t, ok := object.(*T)
	if !ok {
		return nil, fmt.Errorf("event carries a %T, want %T", object, t)
	}
	return t, nil
}

// demand compiles the pod's claims; nil if no node can have the pod.
func (p *Plugin) demand(pod *v1.Pod) *volumecache.Demand {
	demand, refusal, err := p.cache.Demand(pod)
	if refusal != nil || err != nil {
		return nil
	}
	return demand
}

func (p *Plugin) afterClass(pod *v1.Pod, before, now *storagev1.StorageClass) bool {
	if before != nil && before.UID == now.UID && equality.Semantic.DeepEqual(before.AllowedTopologies, now.AllowedTopologies) {
		return false // all other relevant fields are immutable
	}
	return p.anyClaim(pod, func(claim *v1.PersistentVolumeClaim) bool { return match.ClaimClass(claim) == now.Name })
}

// anyClaim reports whether some claim of the pod matches. It compiles nothing: hints run
// for every waiting pod under the scheduling queue's lock.
func (p *Plugin) anyClaim(pod *v1.Pod, matches func(*v1.PersistentVolumeClaim) bool) bool {
	for use := range claims.Used(pod) {
		if claim := p.cache.Claim(pod.Namespace, use.Name); claim != nil && matches(claim) {
			return true
		}
	}
	return false
}

func (p *Plugin) afterClaim(pod *v1.Pod, before, now *v1.PersistentVolumeClaim) bool {
	if !usesClaim(pod, before) && !usesClaim(pod, now) {
		return false
	}
	return now != nil && (before == nil ||
		before.UID != now.UID ||
		before.Spec.VolumeName != now.Spec.VolumeName ||
		before.Status.Phase != now.Status.Phase ||
		plan.IsBound(before) != plan.IsBound(now) ||
		claims.SelectedNode(before) != claims.SelectedNode(now) ||
		match.ClaimClass(before) != match.ClaimClass(now) ||
		before.Annotations[plan.AnnStorageProvisioner] != now.Annotations[plan.AnnStorageProvisioner] ||
		!equality.Semantic.DeepEqual(before.Spec, now.Spec))
}

// usesClaim reports whether the pod uses the claim, which may be nil.
func usesClaim(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return claim != nil && claim.Namespace == pod.Namespace && claims.Uses(pod, claim.Name)
}

// verdict is the part of a hint that is the same for all pods: hints run for every
// waiting pod under the scheduling queue's lock. Only the last event's is kept.
type verdict[T comparable] struct {
	before, now T
	// state is the cache's state that the verdict depends on, if any.
	state   uint64
	useless bool // for all pods
	free    bool // of a volume: any claim may take it
}

// verdictOn returns the verdict on an event, computed by judge for the first pod.
func verdictOn[T comparable](last *atomic.Pointer[verdict[T]], event verdict[T], judge func(*verdict[T])) *verdict[T] {
	if v := last.Load(); v != nil && v.before == event.before && v.now == event.now && v.state == event.state {
		return v
	}
	judge(&event)
	last.Store(&event)
	return &event
}

// volumeVerdict is the verdict on a volume that was added or updated.
func (p *Plugin) volumeVerdict(before, now *v1.PersistentVolume) *verdict[*v1.PersistentVolume] {
	event := verdict[*v1.PersistentVolume]{before: before, now: now}
	return verdictOn(&p.lastVolume, event, func(v *verdict[*v1.PersistentVolume]) {
		v.useless, v.free = before != nil && !decisive(before, now), match.Free(now)
	})
}

func (p *Plugin) afterVolume(pod *v1.Pod, before, now *v1.PersistentVolume) bool {
	given := namesClaimOf(before, pod)
	switch {
	case now == nil && !given:
		return false
	case now != nil && now.Spec.ClaimRef != nil && !given && !namesClaimOf(now, pod):
		return false // of another claim: every binding causes two such events
	case now != nil && p.volumeVerdict(before, now).useless:
		return false
	case now != nil && !given && !namesClaimOf(now, pod) && !p.anyClaim(pod, func(claim *v1.PersistentVolumeClaim) bool {
		return claim.Spec.VolumeName == now.Name || p.volumeVerdict(before, now).free && match.ClaimClass(claim) == match.VolumeClass(now)
	}):
		return false
	case now == nil:
		p.cache.ObserveVolume(before.Name)
	default:
		p.cache.ApplyVolume(now)
	}
	demand := p.demand(pod)
	return demand != nil && (given && demand.GivenUp(before, now) || now != nil && p.cache.VolumeMayUnblock(demand, now.Name))
}

// namesClaimOf reports whether the claimRef of a volume, which may be nil, names a claim
// that the pod uses.
func namesClaimOf(pv *v1.PersistentVolume, pod *v1.Pod) bool {
	if pv == nil || pv.Spec.ClaimRef == nil {
		return false
	}
	ref := pv.Spec.ClaimRef
	return ref.Namespace == pod.Namespace && claims.Uses(pod, ref.Name)
}

// decisive reports whether two versions of a volume can lead to different decisions.
func decisive(before, now *v1.PersistentVolume) bool {
	return before.Status.Phase != now.Status.Phase ||
		!maps.Equal(before.Labels, now.Labels) ||
		match.VolumeClass(before) != match.VolumeClass(now) ||
		match.DiskProblem(before) != match.DiskProblem(now) ||
		(before.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(&before.Spec, &now.Spec)
}

func (p *Plugin) afterNode(pod *v1.Pod, before, now *v1.Node) bool {
	if now == nil {
		p.cache.ObserveNode(before.Name)
		return p.wasSelected(pod, before.Name)
	}
	p.cache.ObserveNode(now.Name)
	if before != nil {
		event := verdict[*v1.Node]{before: before, now: now, state: p.cache.SegmentsCreated()}
		if verdictOn(&p.lastNode, event, func(v *verdict[*v1.Node]) { v.useless = !p.cache.NodeGains(before, now) }).useless {
			return false
		}
	}
	demand := p.demand(pod)
	return demand != nil && p.cache.FitsNode(demand, now.Name)
}

// wasSelected reports whether a claim of the pod was to be provisioned on the node.
func (p *Plugin) wasSelected(pod *v1.Pod, node string) bool {
	return p.anyClaim(pod, func(claim *v1.PersistentVolumeClaim) bool {
		return !plan.IsBound(claim) && claims.SelectedNode(claim) == node
	})
}

func (p *Plugin) afterCSINode(pod *v1.Pod, before, now *storagev1.CSINode) bool {
	if before != nil && before.Annotations[v1.MigratedPluginsAnnotationKey] == now.Annotations[v1.MigratedPluginsAnnotationKey] {
		return false
	}
	if !p.anyClaim(pod, func(claim *v1.PersistentVolumeClaim) bool { return claim.Spec.VolumeName != "" }) {
		return false
	}
	demand := p.demand(pod)
	return demand != nil && p.cache.Translates(demand) && p.cache.FitsNode(demand, now.Name)
}

func (p *Plugin) afterCSIDriver(pod *v1.Pod, before, now *storagev1.CSIDriver) bool {
	if !tracksCapacity(before) || tracksCapacity(now) {
		return false
	}
	if !p.anyClaim(pod, func(claim *v1.PersistentVolumeClaim) bool {
		class := p.cache.Class(match.ClaimClass(claim))
		return class != nil && class.Provisioner == before.Name
	}) {
		return false
	}
	demand := p.demand(pod)
	return demand != nil && demand.ProvisionedBy(before.Name)
}

func tracksCapacity(driver *storagev1.CSIDriver) bool {
	return driver != nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
}

// sameQuantity compares two quantities, which may be nil.
func sameQuantity(a, b *resource.Quantity) bool {
	return a == b || a != nil && b != nil && a.Cmp(*b) == 0
}

func (p *Plugin) afterCapacity(pod *v1.Pod, before, now *storagev1.CSIStorageCapacity) bool {
	if before != nil && sameQuantity(before.Capacity, now.Capacity) && sameQuantity(before.MaximumVolumeSize, now.MaximumVolumeSize) &&
		before.Annotations[wellknown.PavCountedAnnotation] == now.Annotations[wellknown.PavCountedAnnotation] {
		return false
	}
	p.cache.ObserveCapacity(now.Namespace, now.Name)
	left, held := p.cache.CapacityLeft(now)
	if !p.anyClaim(pod, func(claim *v1.PersistentVolumeClaim) bool {
		requested := claim.Spec.Resources.Requests[v1.ResourceStorage]
		return match.ClaimClass(claim) == now.StorageClassName && (held || requested.Value() <= left)
	}) {
		return false // with held capacity, the evaluation below records the pod for activateOnRelease
	}
	demand := p.demand(pod)
	return demand != nil && p.cache.CapacityMayUnblock(demand, now)
}

func (*Plugin) afterPod(pod, before, _ *v1.Pod) bool {
	return volumecache.Preempted(before) && corev1helpers.PodPriority(before) < corev1helpers.PodPriority(pod)
}

// activateOnRelease activates the profile's waiting pods, until ctx ends, when a
// reservation that kept them from a node is released without success or expires. The
// scheduling queue gets no event for it, so there is no hint.
func (p *Plugin) activateOnRelease(ctx context.Context) {
	stop := p.cache.OnRelease(func(waiting func() []*v1.Pod) {
		activated := map[string]*v1.Pod{}
		for _, pod := range waiting() {
			if pod.Spec.SchedulerName == p.handle.ProfileName() && pod.DeletionTimestamp == nil {
				activated[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String()] = pod
			}
		}
		if len(activated) > 0 {
			logger := klog.FromContext(ctx)
			logger.V(2).Info("Activating pods after the release of reservations", "pods", len(activated))
			p.handle.Activate(logger, activated)
		}
	})
	context.AfterFunc(ctx, stop)
}
