// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/pav/render"
)

// retry decides about a volume of which nothing exists.
func (f *Facts) retry() Step {
	status := &f.Volume.Status
	p := f.Provisioner
	switch {
	case !f.wanted(), p == nil, p.Deleting, p.UID != f.Volume.Spec.ProvisionerUID:
		return f.certain(f.remove())
	case status.Reschedule && f.Volume.Spec.NodeName != "" && f.Claim.Annotations[AnnSelectedNode] == f.Volume.Spec.NodeName:
		return f.certain(ReleaseNode{})
	case status.Reschedule: // the next node has not failed
		return f.next(f.lastEvent(), func(s *stowage.PavVolumeStatus) { s.Reschedule, s.Failures, s.RetryTime = false, 0, nil })
	}
	if wait := f.Limits.Delay(f.Now, f.Volume.Status.RetryTime); wait > 0 {
		return Wait{Keep: true, For: wait}
	}
	switch step := f.begin().(type) {
	case Refuse: // evaluation may have read objects that are not watched
		return Wait{Event: step.Event, For: f.Limits.BackoffLast}
	case None:
		return Wait{Keep: true}
	default:
		return step
	}
}

// lastEvent is the event of the last failure.
func (f *Facts) lastEvent() Event {
	if last := f.Volume.Status.LastError; last != nil {
		return Event{Reason: Reason(last.Reason), Message: last.Message, ConditionOnly: true}
	}
	return Event{}
}

// validate decides about a volume whose attempt has begun.
func (f *Facts) validate() Step {
	switch {
	case !f.wanted() && f.helper().Over():
		return f.certain(f.enter(stowage.PavVolumePending, abandoned))
	case !f.wanted():
		return f.certain(f.abandon())
	}
	if f.helper().Idle() {
		refusal := f.refuseByValidation(f.Made.Claim)
		switch {
		case refusal != nil:
			return f.failed(stowage.PavVolumePending, refusal.Reason, refusal.Message)
		case !f.Evaluated.HasPod:
			return f.enter(stowage.PavVolumeCreating, Event{})
		}
	}
	step, result := f.run()
	switch {
	case result == nil:
		return step
	case !result.Succeeded:
		return f.failed(stowage.PavVolumePending, Invalid, f.describe(result.Message))
	default:
		return f.enter(stowage.PavVolumeCreating, Event{})
	}
}

var abandoned = Event{Reason: Abandoned, Message: "the claim or the PavVolume is being deleted", Normal: true}

// abandon ends the helper pod of a volume that is no longer wanted.
func (f *Facts) abandon() Record {
	return f.result(stowage.PavStepResult{Message: abandoned.Message})
}

// create decides about a volume that was validated.
func (f *Facts) create() Step {
	switch {
	case !f.wanted() && f.helper().Idle():
		return f.certain(f.enter(stowage.PavVolumePending, abandoned))
	case !f.wanted() && f.helper().Over():
		return f.certain(f.enter(stowage.PavVolumeReverting, abandoned))
	case !f.wanted():
		return f.certain(f.abandon())
	}
	if f.helper().Idle() {
		switch e := &f.Evaluated; {
		case e.Problem != "":
			return f.failed(stowage.PavVolumePending, CreationFailed, e.Problem)
		case e.Handle != nil && podstep.BadHandle(*e.Handle) != "":
			return f.failed(stowage.PavVolumePending, CreationFailed, "volumeCreation.handle "+podstep.BadHandle(*e.Handle))
		case f.HandleUser != "":
			return f.failed(stowage.PavVolumePending, HandleInUse, "the handle is in use by "+f.HandleUser)
		case f.Volume.Spec.NodeName != "" && f.Node == nil:
			return f.failed(stowage.PavVolumePending, NodeGone, f.nodeGoneMessage())
		case f.NoCapacity != "":
			record := f.failed(stowage.PavVolumePending, NodeUnsuitable, f.NoCapacity)
			record.Status.Reschedule = true
			return record
		case !e.HasPod:
			return f.made(&stowage.PavStepResult{}, stowage.PavVolumePending)
		}
	}
	step, result := f.run()
	switch {
	case result == nil:
		return step
	case !result.Succeeded:
		reason := CreationFailed
		reschedule := result.Reschedule && f.Volume.Spec.NodeName != ""
		if reschedule {
			reason = NodeUnsuitable
		}
		record := f.failed(stowage.PavVolumeReverting, reason, f.describe(result.Message))
		record.Status.Reschedule = reschedule
		return record
	case f.Evaluated.Problem != "":
		return f.failed(stowage.PavVolumeReverting, CreationFailed, f.Evaluated.Problem)
	default:
		return f.made(result, stowage.PavVolumeReverting)
	}
}

// made records handle and capacity of a volume that exists. If they are not valid, the attempt
// has failed.
func (f *Facts) made(result *stowage.PavStepResult, failed stowage.PavVolumePhase) Step {
	handle, from := f.Volume.Name, "the default handle "
	switch {
	case f.Evaluated.Handle != nil:
		handle, from = *f.Evaluated.Handle, "volumeCreation.handle "
	case result.Handle != nil:
		handle, from = *result.Handle, "/pav/handle "
	}
	if problem := podstep.BadHandle(handle); problem != "" {
		return f.failed(failed, CreationFailed, from+problem)
	}
	capacity, problem := f.capacity(result)
	if problem != "" {
		return f.failed(failed, CreationFailed, problem)
	}
	record := f.enter(stowage.PavVolumePublishing, Event{})
	record.Status.Handle, record.Status.Capacity = handle, resource.NewQuantity(capacity, resource.BinarySI)
	return record
}

// capacity returns the capacity of a volume that exists, in bytes, or why it is not valid. A claim
// is never bound to a volume that is smaller than its request.
func (f *Facts) capacity(result *stowage.PavStepResult) (bytes int64, problem string) {
	from := "volumeCreation.capacity"
	switch {
	case f.Evaluated.Capacity != nil:
		bytes = *f.Evaluated.Capacity
	case result.Capacity != nil:
		from = "/pav/capacity"
		quantity, err := render.ParseCapacity(strings.TrimSpace(*result.Capacity))
		if err != nil {
			return 0, fmt.Sprintf("/pav/capacity %v", err)
		}
		bytes = quantity.Value()
	default:
		return 0, "the capacity of the volume is not known: set volumeCreation.capacity, or have the creation pod write /pav/capacity"
	}
	request := f.Made.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if bytes < request.Value() {
		return 0, fmt.Sprintf("%s is %d bytes, but the claim requests %s", from, bytes, request.String())
	}
	return bytes, ""
}

// publish decides about a volume that exists.
func (f *Facts) publish() Step {
	switch {
	case f.PV != nil && f.owned():
		record := f.enter(stowage.PavVolumeProvisioned, Event{Reason: Succeeded, Message: "Created volume " + f.PV.Name, Normal: true})
		record.Status.Failures, record.Status.VolumeUID, record.Status.ReclaimPolicy = 0, f.PV.UID, f.PV.Spec.PersistentVolumeReclaimPolicy
		return record
	case f.PV != nil:
		return blocked(NameInUse, "PersistentVolume %s exists, but this controller did not create it", f.PV.Name)
	case !f.wanted():
		return f.certain(f.enter(stowage.PavVolumeReverting, abandoned))
	case f.HandleUser != "":
		return f.certain(f.failed(stowage.PavVolumeReverting, HandleInUse, "the handle is in use by "+f.HandleUser))
	}
	if access := f.Made.Access; !access.Anywhere() {
		switch node := f.Volume.Spec.NodeName; {
		case f.Claim.Annotations[AnnSelectedNode] != node:
			return f.certain(f.failed(stowage.PavVolumeReverting, NodeChanged, fmt.Sprintf("the volume was made for node %s, which is no longer the selected node of the claim", node)))
		case f.Node == nil:
			return blocked(NodeGone, "%s: delete the PavVolume if the node does not return", f.nodeGoneMessage())
		case slices.ContainsFunc(access.Keys(), func(key string) bool { return f.Node.Labels[key] == "" }):
			return blocked(NodeLabelMissing, "node %s must have the labels %s, which become the node affinity of the volume", node, strings.Join(access.Keys(), ", "))
		}
	}
	return f.certain(CreatePV{})
}

// PersistentVolume returns the PersistentVolume of CreatePV.
func PersistentVolume(f *Facts) *corev1.PersistentVolume {
	claim, class := f.Made.Claim, f.Made.Class
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        f.Volume.Name,
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": f.Volume.Spec.Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: *f.Volume.Status.Capacity},
			AccessModes: claim.Spec.AccessModes,
			VolumeMode:  claim.Spec.VolumeMode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              class.Name,
			MountOptions:                  class.MountOptions,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: f.Volume.Spec.Provisioner, VolumeHandle: f.Volume.Status.Handle, VolumeAttributes: class.Parameters,
			}},
		},
	}
	if class.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		pv.Finalizers = []string{PVFinalizer}
	}
	if f.Made.Access.SelectedNode {
		pv.Annotations[wellknown.PavNodeAnnotation] = f.Volume.Spec.NodeName
	}
	if keys := f.Made.Access.Keys(); len(keys) > 0 {
		var term corev1.NodeSelectorTerm
		for _, key := range keys {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{f.Node.Labels[key]},
			})
		}
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
	}
	return pv
}
