// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// claim explains a PersistentVolumeClaim.
func (x *explainer) claim(namespace, name string) error {
	claim := snapshot.Find[*corev1.PersistentVolumeClaim](x.s, namespace, name)
	if claim == nil {
		return x.noClaim(namespace, name)
	}
	phase := cmp.Or(claim.Status.Phase, corev1.ClaimPending)
	x.state(string(phase), &claim.CreationTimestamp)
	request := fmt.Sprintf("%s of class %s", format.Size(claim.Spec.Resources.Requests.Storage().Value()), orNone(match.ClaimClass(claim)))
	pods := x.podsOf(namespace, name)
	for _, pod := range pods {
		x.relate("Pod", pod.Namespace, pod.Name, "uses the claim", podState(pod))
	}
	switch {
	case phase == corev1.ClaimLost:
		x.say("Claim %s (%s) is Lost: its volume %s was deleted.", name, request, claim.Spec.VolumeName)
		x.lostClaim(claim)
	case plan.IsBound(claim):
		x.say("Claim %s (%s) is bound to volume %s.", name, request, claim.Spec.VolumeName)
		x.boundClaim(claim)
	default:
		x.say("Claim %s (%s) is %s, created%s.", name, request, phase, ago(&claim.CreationTimestamp, x.now))
	}
	switch {
	case claim.DeletionTimestamp != nil:
		x.deletingClaim(claim, pods)
	case phase != corev1.ClaimLost && !plan.IsBound(claim):
		x.pendingClaim(claim, pods)
	}
	if x.report.WaitsFor == nil && plan.IsBound(claim) {
		x.boundPods(pods)
	}
	return nil
}

// noClaim returns the error for an unknown claim.
func (x *explainer) noClaim(namespace, name string) error {
	err := &NotFoundError{Kind: KindClaim, Namespace: namespace, Name: name}
	var names, elsewhere []string
	for _, claim := range snapshot.Of[*corev1.PersistentVolumeClaim](x.s) {
		switch {
		case claim.Namespace == namespace:
			names = append(names, claim.Name)
		case claim.Name == name:
			elsewhere = append(elsewhere, claim.Namespace)
		}
	}
	slices.Sort(elsewhere)
	switch similar := similarly(name, names); {
	case len(elsewhere) > 0:
		err.Hint = fmt.Sprintf("there is one in namespace %s: add -n %s", format.List(elsewhere, 3), elsewhere[0])
	case similar != "":
		err.Hint = strings.TrimPrefix(similar, ", ")
	case !snapshot.Complete[*corev1.PersistentVolumeClaim](x.s):
		err.Hint = "claims could not be read"
	default:
		err.Hint = "-n selects another namespace"
	}
	return err
}

// lostClaim explains what is left of the volume of a claim.
func (x *explainer) lostClaim(claim *corev1.PersistentVolumeClaim) {
	x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator})
	x.relate(KindVolume, "", claim.Spec.VolumeName, "was bound to", x.volumeState(claim.Spec.VolumeName))
	x.next("delete the claim and create it again: kubectl delete pvc %s -n %s", claim.Name, claim.Namespace)
	x.link(guide.Pods.Link())
	for _, t := range x.reports.Tombstones {
		if t.Volume == claim.Spec.VolumeName {
			x.say("The disk of the volume, of node %s, may still have its data: %s%s.", t.Node, t.State, x.since(t.Since))
			x.next("before that, look for the data: kubectl stowage why node %s", t.Node)
		}
	}
}

// boundClaim explains the volume of a claim.
func (x *explainer) boundClaim(claim *corev1.PersistentVolumeClaim) {
	pv := snapshot.Find[*corev1.PersistentVolume](x.s, "", claim.Spec.VolumeName)
	x.relate(KindVolume, "", claim.Spec.VolumeName, "is bound to", x.volumeState(claim.Spec.VolumeName))
	switch {
	case pv == nil && snapshot.Complete[*corev1.PersistentVolume](x.s):
		x.say("Volume %s does not exist: the PV controller marks the claim Lost.", claim.Spec.VolumeName)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitPVController})
		x.link(guide.Pods.Link())
		return
	case pv == nil:
		x.say("The volume could not be read.")
		return
	}
	if node := x.nodeOf(pv); node != "" {
		x.say("The volume is on node %s.", node)
		x.relate(KindNode, "", node, "has the volume", x.nodeState(node))
	}
	if pv.Spec.ClaimRef == nil || !match.RefersTo(pv.Spec.ClaimRef, claim) {
		x.say("The volume does not refer to the claim: its spec.claimRef was changed or removed.")
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator})
	}
	if pv.DeletionTimestamp != nil {
		x.say("The volume is being deleted (requested%s), and stays until the claim is deleted.", ago(pv.DeletionTimestamp, x.now))
		x.link(guide.Terminating.Link())
	}
	x.volumeLoss(pv)
	if d, reported := x.reports.OfVolume(pv.Name); reported && d.State == stowage.EntryBound && d.Reason == "" {
		x.relate(KindDisk, "", diskName(d), "has the data", string(d.State))
		x.reportAge(d.Node)
	} else {
		x.volumeDisk(pv)
	}
	x.pavVolume(pv.Name)
}

// boundPods explains the pods of a claim whose storage is in order.
func (x *explainer) boundPods(pods []*corev1.Pod) {
	var running, waiting []string
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			running = append(running, pod.Name)
		} else {
			waiting = append(waiting, pod.Name)
		}
	}
	switch {
	case len(waiting) > 0:
		x.say("The claim is in order. %s have no node yet.", capital(podList(waiting)))
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitScheduler, Name: waiting[0]})
		x.next("kubectl stowage why pod %s -n %s", waiting[0], pods[0].Namespace)
	case len(running) > 0:
		x.say("The claim is in order, and used by %s.", podList(running))
	case snapshot.Complete[*corev1.Pod](x.s):
		x.say("The claim is in order. No pod uses it.")
	}
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// deletingClaim explains what keeps a claim that is being deleted.
func (x *explainer) deletingClaim(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) {
	x.say("It is being deleted (requested%s).", ago(claim.DeletionTimestamp, x.now))
	var names []string
	for _, pod := range pods {
		if pod.Spec.NodeName != "" { // others do not protect it
			names = append(names, pod.Name)
		}
	}
	switch {
	case len(names) > 0:
		x.say("It stays while %s uses it.", podList(names))
		x.report.WaitsFor = &v1alpha1.Wait{For: v1alpha1.WaitPods, Name: names[0]}
		x.next("delete the pods that use it, or wait until they end")
	case len(claim.Finalizers) > 0:
		x.say("It is kept by %s.", strings.Join(claim.Finalizers, ", "))
		x.report.WaitsFor = &v1alpha1.Wait{For: v1alpha1.WaitPVController}
	}
}

// pendingClaim explains what a claim without a volume waits for.
func (x *explainer) pendingClaim(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) {
	x.report.Since = &claim.CreationTimestamp
	if claim.Spec.VolumeName != "" {
		x.named(claim)
		return
	}
	if x.reserved(claim) {
		return
	}
	name := match.ClaimClass(claim)
	class := snapshot.Find[*storagev1.StorageClass](x.s, "", name)
	switch {
	case name == "":
		x.say("It has no class: the PV controller binds it to an Available volume without a class.")
		x.offers(claim)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitPVController})
	case class == nil && snapshot.Complete[*storagev1.StorageClass](x.s):
		x.noClass(name)
	case class == nil:
		x.say("Its StorageClass could not be read, so what it waits for is not known.")
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate:
		x.immediate(claim, class)
	case claims.SelectedNode(claim) != "":
		node := claims.SelectedNode(claim)
		x.relate(KindNode, "", node, "selected for the volume", x.nodeState(node))
		x.say("Its volume is being provisioned on node %s, which the scheduler selected, by %s.", node, class.Provisioner)
		x.provisioned(claim, class)
	default:
		x.delayed(claim, pods)
	}
}

// named explains a claim that names a volume.
func (x *explainer) named(claim *corev1.PersistentVolumeClaim) {
	name := claim.Spec.VolumeName
	x.relate(KindVolume, "", name, "is named in the claim", x.volumeState(name))
	pv := snapshot.Find[*corev1.PersistentVolume](x.s, "", name)
	switch {
	case pv == nil && snapshot.Complete[*corev1.PersistentVolume](x.s):
		x.say("It names volume %s, which does not exist.", name)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: name})
		x.next("create the volume, or create the claim without spec.volumeName")
	case pv != nil && pv.Spec.ClaimRef != nil && !match.RefersTo(pv.Spec.ClaimRef, claim):
		x.say("It names volume %s, which belongs to claim %s/%s.", name, pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: name})
		x.next("create the claim again, with another volume or none in spec.volumeName")
	default:
		x.say("It names volume %s: the PV controller binds them.", name)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitPVController, Name: name})
		x.next("if this lasts, see the events of the claim and the log of the PV controller")
	}
}

// reserved explains a claim for which a volume is reserved, and reports whether there is one.
func (x *explainer) reserved(claim *corev1.PersistentVolumeClaim) bool {
	for _, pv := range snapshot.Of[*corev1.PersistentVolume](x.s) {
		if !match.RefersTo(pv.Spec.ClaimRef, claim) {
			continue
		}
		x.relate(KindVolume, "", pv.Name, "is reserved for the claim", x.volumeState(pv.Name))
		request, err := match.NewRequest(claim)
		if err == nil && !request.FitsSpec(match.NewVolume(pv)) {
			x.say("Volume %s is reserved for it, and does not fit: it is too small, has other modes, is being deleted, or its disk is in trouble.", pv.Name)
			x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: pv.Name})
			x.next("correct the volume, or remove its spec.claimRef: kubectl stowage why pv %s", pv.Name)
			x.link(guide.Pods.Link())
			return true
		}
		x.say("Volume %s is reserved for it by spec.claimRef: the PV controller is to bind them.", pv.Name)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitPVController, Name: pv.Name})
		x.next("if this lasts, see the events of the claim and the log of the PV controller")
		return true
	}
	return false
}

// noClass explains a claim whose class does not exist.
func (x *explainer) noClass(name string) {
	var names []string
	for _, class := range snapshot.Of[*storagev1.StorageClass](x.s) {
		names = append(names, class.Name)
	}
	slices.Sort(names)
	x.say("There is no StorageClass %s%s.", name, similarly(name, names))
	x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: name})
	x.next("create the class, or create the claim with one of %s", format.List(names, 5))
	x.link(guide.Pods.Link())
}

const noProvisioner = "kubernetes.io/no-provisioner"

// immediate explains a claim whose class binds without a pod.
func (x *explainer) immediate(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) {
	if class.Provisioner == noProvisioner {
		x.say("Its class binds immediately: the PV controller chooses a volume before there is a pod, whatever its node. Classes of local volumes need volumeBindingMode WaitForFirstConsumer.")
		x.offers(claim)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitPVController})
		x.link(guide.Pods.Link())
		return
	}
	x.say("%s is to create its volume: its class binds immediately.", class.Provisioner)
	x.provisioned(claim, class)
}

// provisioned explains a claim whose volume is being provisioned.
func (x *explainer) provisioned(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) {
	p := snapshot.Find[*stowage.PavProvisioner](x.s, "", class.Provisioner)
	if p != nil {
		if reason := x.condition(p.Status.Conditions, guide.PavProvisioners, stowage.ConditionAccepted); reason != "" {
			x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: p.Name, Reason: reason})
			x.next("correct the PavProvisioner: kubectl describe pav %s", p.Name)
		}
	}
	x.pavVolume("pvc-" + string(claim.UID))
	x.wait(v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: class.Provisioner})
	x.next("if this lasts, see the events of the claim and the log of %s", class.Provisioner)
	if p != nil {
		x.link(guide.PavVolumes.Link())
	}
}

// delayed explains a claim that waits for a pod, or for the pod's node.
func (x *explainer) delayed(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod) {
	switch {
	case rules.Requested(claim, nil) && !slices.ContainsFunc(pods, rules.Scheduling):
		x.say("It has the annotation %s: %s, so stowage-controller binds it without a pod, if its configuration has claimBinder.bindNow.", wellknown.BindAnnotation, wellknown.BindNow)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitController})
		x.next("see the events of the claim: kubectl describe pvc %s -n %s", claim.Name, claim.Namespace)
		x.link(guide.BoundNow.Link())
	case len(pods) > 0:
		x.say("It waits for a node of %s: the scheduler chooses the volume with the node.", podList([]string{pods[0].Name}))
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitScheduler, Name: pods[0].Name})
		x.next("kubectl stowage why pod %s -n %s", pods[0].Name, pods[0].Namespace)
		x.link(guide.Pods.Link())
	case snapshot.Complete[*corev1.Pod](x.s):
		x.say("No pod uses it. Its class is WaitForFirstConsumer, so this is normal until there is one.")
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitConsumer})
		x.next("create a pod that uses the claim")
	default:
		x.say("It waits for a pod that uses it, and the pod's node. Pods could not be read.")
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitConsumer})
	}
	x.offers(claim)
}

// offers counts the volumes that the claim could take.
func (x *explainer) offers(claim *corev1.PersistentVolumeClaim) {
	request, err := match.NewRequest(claim)
	if err != nil {
		x.say("It cannot be bound: %s.", err)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator})
		return
	}
	var fit, free, later int
	var largest int64
	for _, pv := range snapshot.Of[*corev1.PersistentVolume](x.s) {
		v := match.NewVolume(pv)
		switch {
		case v.Class != request.Class:
		case v.Free():
			free++
			largest = max(largest, v.Bytes)
			if request.Matches(v) {
				fit++
			}
		case localdisks.UseOf(pv) == localdisks.Cleaning && v.Bytes >= request.Bytes && v.Block == request.Block:
			later++
		}
	}
	if !snapshot.Complete[*corev1.PersistentVolume](x.s) {
		x.say("Volumes could not be read, so whether one fits is not known.")
		return
	}
	text := "No volume of the class is free"
	switch {
	case free > 0 && fit > 0:
		text = fmt.Sprintf("Free volumes of the class: %d, of which %d can serve it", free, fit)
	case free > 0 && largest < request.Bytes:
		text = fmt.Sprintf("Free volumes of the class: %d, of which none is large enough: the largest has %s", free, format.Size(largest))
	case free > 0:
		text = fmt.Sprintf("Free volumes of the class: %d, of which none has the modes and labels that the claim requires", free)
	}
	if later > 0 {
		text += fmt.Sprintf("; being cleaned, and large enough: %d", later)
	}
	if class := snapshot.Find[*storagev1.StorageClass](x.s, "", request.Class); class != nil && class.Provisioner != noProvisioner && free == 0 {
		return // volumes are made for claims
	}
	x.say("%s.", text)
}
