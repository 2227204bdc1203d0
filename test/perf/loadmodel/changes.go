// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/test/perf/loadmodel/idle"
)

// put stores the object and delivers the idle.Event.
func (m *model) put(to *idle.Informer, old any, object runtime.Object) {
	m.deliver(m.store(to, old, object))
}

// remove drops the object and delivers the idle.Event.
func (m *model) remove(from *idle.Informer, object runtime.Object) {
	m.deliver(m.drop(from, object))
}

// deliver hands one idle.Event to the handlers, and measures them.
func (m *model) deliver(e idle.Event) {
	m.meter.phase(&m.events, false, func() int { e.Deliver(); return 1 })
}

// deliverWritten delivers the idle.Events of the binder's writes.
func (m *model) deliverWritten() {
	m.client.ClearActions() // which it records
	m.mu.Lock()
	events := m.pending
	m.pending = nil
	m.mu.Unlock()
	for _, e := range events {
		m.deliver(e)
	}
}

// arrive makes the next pod and its claims.
func (m *model) arrive() (*arrival, error) {
	kind := m.rng.Float64()
	if kind < m.Returning {
		return m.returnPod()
	}
	claims := 1
	if kind < m.Returning+m.FourClaims {
		claims = 4
	}
	// Sizes differ, so that an empty node could have any pod.
	sizes := m.rng.Perm(m.VolumesPerNode)[:claims]
	for i := range sizes {
		sizes[i] = 10*gi*sizes[i] + 5*gi
	}
	a := m.newWorkload(claims, sizes...)
	for _, claim := range a.wanted {
		m.put(m.claims, nil, claim)
	}
	m.put(m.pods, nil, a.pod)
	return a, nil
}

// returnPod ends a pod and makes another that uses the same claims.
func (m *model) returnPod() (*arrival, error) {
	old, err := m.endPod()
	if err != nil {
		return nil, err
	}
	m.names++
	pod := old.pod.DeepCopy()
	pod.UID, pod.Spec.NodeName = old.pod.UID+"-again", ""
	m.put(m.pods, nil, pod)
	return &arrival{workload: workload{pod: pod, claims: old.claims}}, nil
}

// begin has the pod run on the node it was bound to.
func (m *model) begin(a *arrival, node int) {
	bound := a.pod.DeepCopy()
	bound.Spec.NodeName = m.infos[node].Node().Name
	m.put(m.pods, a.pod, bound)
	m.occupied += len(a.wanted)
	m.runs(&workload{pod: bound, node: node, claims: a.claims})
}

// endPod deletes a pod and leaves its claims.
func (m *model) endPod() (*workload, error) {
	last := len(m.running) - 1
	i := m.rng.IntN(last + 1)
	w := m.running[i]
	m.running[i] = m.running[last]
	m.running = m.running[:last]
	if err := m.infos[w.node].(*framework.NodeInfo).RemovePod(klog.Background(), w.pod); err != nil {
		return nil, err
	}
	m.remove(m.pods, w.pod)
	return w, nil
}

// freeVolumes ends pods, with their claims, until the configured share of volumes
// is bound. Their volumes are released, cleaned, deleted and discovered
// again, as a local provisioner does.
func (m *model) freeVolumes() error {
	for float64(m.occupied) > m.Occupied*float64(len(m.slots)) {
		w, err := m.endPod()
		if err != nil {
			return err
		}
		for _, name := range w.claims {
			if err := m.endClaim(w.pod.Namespace, name); err != nil {
				return err
			}
		}
		m.occupied -= len(w.claims)
	}
	return nil
}

func (m *model) endClaim(namespace, name string) error {
	claim, bound, err := m.bound(namespace, name)
	if err != nil {
		return err
	}
	m.remove(m.claims, claim)
	released := bound.DeepCopy()
	released.Status.Phase = v1.VolumeReleased
	m.put(m.volumes, bound, released)
	m.remove(m.volumes, released)
	i, _ := slices.BinarySearchFunc(m.slots, released.Name, func(s slot, name string) int { return cmp.Compare(s.name, name) })
	m.put(m.volumes, nil, m.disk(&m.slots[i]).Obj())
	return nil
}

// What else changes in the cluster for each pod that is placed.
const (
	heartbeats     = 2
	touchedVolumes = 2
)

// stream changes other objects: nodes, volumes and a claim.
func (m *model) stream() error {
	m.names++
	for range heartbeats {
		m.heartbeat(m.infos[m.rng.IntN(len(m.infos))].(*framework.NodeInfo))
	}
	for range touchedVolumes {
		old, err := m.volume(m.slots[m.rng.IntN(len(m.slots))].name)
		if err != nil {
			return err
		}
		m.touch(m.volumes, old, old.DeepCopy())
	}
	w := m.running[m.rng.IntN(len(m.running))]
	old, err := m.claim(w.pod.Namespace, w.claims[0])
	if err != nil {
		return err
	}
	m.touch(m.claims, old, old.DeepCopy())
	return nil
}

// touch changes an annotation of a copy of an object, and stores it.
func (m *model) touch(to *idle.Informer, old any, object interface {
	runtime.Object
	metav1.Object
}) {
	object.SetAnnotations(labels.Merge(object.GetAnnotations(), labels.Set{"example.com/checked": strconv.Itoa(m.names)}))
	m.put(to, old, object)
}

// heartbeat is what a kubelet reports when nothing has changed.
func (m *model) heartbeat(info *framework.NodeInfo) {
	old := info.Node()
	node := old.DeepCopy()
	node.Status.Conditions[0].LastHeartbeatTime = metav1.Unix(int64(m.names), 0)
	m.put(m.nodes, old, node)
	info.SetNode(node)
}

// setPhases does as the PV controller: it sets the phase of the volumes that were bound for a pod.
func (m *model) setPhases(a *arrival) error {
	for _, name := range a.claims {
		_, volume, err := m.bound(a.pod.Namespace, name)
		if err != nil {
			return err
		}
		if volume.Status.Phase == v1.VolumeBound {
			continue
		}
		bound := volume.DeepCopy()
		bound.Status.Phase = v1.VolumeBound
		m.put(m.volumes, volume, bound)
	}
	return nil
}

// boundTo reports whether claim and volume are fully bound to each other.
func boundTo(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && ref.UID == claim.UID && claim.Spec.VolumeName == volume.Name &&
		claim.Annotations[plan.AnnBindCompleted] != "" &&
		claim.Status.Phase == v1.ClaimBound && volume.Status.Phase == v1.VolumeBound
}
