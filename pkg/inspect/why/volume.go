// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// StorageKinds returns what the answers are made of, besides events.
func StorageKinds() []snapshot.Kind {
	return []snapshot.Kind{
		snapshot.KindOf[*corev1.PersistentVolumeClaim](), snapshot.KindOf[*corev1.PersistentVolume](), snapshot.KindOf[*corev1.Pod](),
		snapshot.KindOf[*corev1.Node](), snapshot.KindOf[*storagev1.StorageClass](), snapshot.KindOf[*stowage.LocalDiskReport](), snapshot.KindOf[*stowage.LocalDiskTombstone](),
		snapshot.KindOf[*stowage.PavProvisioner](), snapshot.KindOf[*stowage.PavVolume](), snapshot.KindOf[*stowage.PavStaging](),
	}
}

// volume explains a PersistentVolume.
func (x *explainer) volume(name string) error {
	pv := snapshot.Find[*corev1.PersistentVolume](x.s, "", name)
	if pv == nil {
		return x.noVolume(name)
	}
	phase := cmp.Or(pv.Status.Phase, corev1.VolumePending)
	x.state(string(phase), cmp.Or(pv.Status.LastPhaseTransitionTime, &pv.CreationTimestamp))
	where := ""
	if node := x.nodeOf(pv); node != "" {
		where = " on node " + node
		x.relate(KindNode, "", node, "has the volume", x.nodeState(node))
	}
	size := format.Size(pv.Spec.Capacity.Storage().Value())
	switch {
	case pv.DeletionTimestamp != nil:
		x.say("Volume %s (%s of class %s%s) is being deleted (requested%s), and is %s.", name, size, orNone(match.VolumeClass(pv)), where, ago(pv.DeletionTimestamp, x.now), phase)
		x.deletingVolume(pv)
	default:
		x.say("Volume %s (%s of class %s%s) is %s%s.", name, size, orNone(match.VolumeClass(pv)), where, phase, x.since(pv.Status.LastPhaseTransitionTime))
		x.liveVolume(pv, phase)
	}
	x.volumeLoss(pv)
	x.volumeDisk(pv)
	x.pavVolume(name)
	return nil
}

func orNone(class string) string { return cmp.Or(class, `""`) }

// noVolume returns the error for an unknown volume, or explains what is left of it.
func (x *explainer) noVolume(name string) error {
	if found, ok := x.reports.OfVolume(name); ok {
		return &NotFoundError{Kind: KindVolume, Name: name, Hint: "a report still names it: kubectl stowage why disk " + diskName(found)}
	}
	for _, t := range x.reports.Tombstones {
		if t.Volume == name {
			return &NotFoundError{Kind: KindVolume, Name: name, Hint: fmt.Sprintf("it was on node %s, and its disk may hold data (%s): kubectl stowage why node %s", t.Node, t.State, t.Node)}
		}
	}
	var names []string
	for _, pv := range snapshot.Of[*corev1.PersistentVolume](x.s) {
		names = append(names, pv.Name)
	}
	return &NotFoundError{Kind: KindVolume, Name: name, Hint: strings.TrimPrefix(similarly(name, names), ", ")}
}

// liveVolume explains a volume that is not being deleted.
func (x *explainer) liveVolume(pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) {
	ref := pv.Spec.ClaimRef
	switch {
	case phase == corev1.VolumeBound:
		x.volumeUsers(pv)
	case phase == corev1.VolumeReleased:
		x.releasedVolume(pv)
	case phase == corev1.VolumeFailed:
		x.say("The PV controller could not reclaim it: %s.", strings.TrimSuffix(cmp.Or(pv.Status.Message, "it gives no reason"), "."))
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Reason: string(disk.PhaseFailed)})
		x.next("delete the volume; with policy Delete its disk is cleaned")
		x.link(guide.Link(string(disk.PhaseFailed), guide.Reasons))
	case ref != nil:
		x.say("It is reserved for claim %s/%s.", ref.Namespace, ref.Name)
		claim := snapshot.Find[*corev1.PersistentVolumeClaim](x.s, ref.Namespace, ref.Name)
		switch {
		case claim == nil && snapshot.Complete[*corev1.PersistentVolumeClaim](x.s):
			x.say("There is no such claim.")
			x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: ref.Namespace + "/" + ref.Name})
			x.next("create the claim, or remove spec.claimRef of the volume")
		case claim == nil:
			x.say("The claim could not be read.")
		case !match.RefersTo(ref, claim):
			x.say("A claim of that name exists, and is another one: its UID differs.")
			x.wait(v1alpha1.Wait{For: v1alpha1.WaitPVController})
		default:
			x.relate(KindClaim, claim.Namespace, claim.Name, "reserved for", string(claim.Status.Phase))
			x.wait(v1alpha1.Wait{For: v1alpha1.WaitPVController, Name: ref.Namespace + "/" + ref.Name})
			x.next("kubectl stowage why pvc %s -n %s", ref.Name, ref.Namespace)
		}
	case phase == corev1.VolumePending:
		x.say("The PV controller has not observed it yet.")
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitPVController})
	case match.DiskProblem(pv) != match.Fits:
	default:
		x.say("It is free: any claim that fits can take it.")
	}
}

// releasedVolume explains a volume whose claim is gone.
func (x *explainer) releasedVolume(pv *corev1.PersistentVolume) {
	x.wasOf(pv)
	switch by := pv.Annotations[localpv.ProvisionedByAnnotation]; {
	case pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain:
		x.say("Its policy is Retain: it stays, with its data, until an administrator deletes it.")
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator})
		x.next("if the data is not needed: kubectl delete pv %s, then empty the disk or acknowledge the data", pv.Name)
		x.link(guide.Link(string(disk.RetainedDirty), guide.Reasons))
	case localdisks.Managed(pv):
		x.say("The provisioner of its node verifies that the disk is unused, and deletes the volume: step %d of %d.", stepVerify, allSteps)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: local(x.nodeOf(pv)), Step: stepVerify, Steps: allSteps})
		x.link(guide.Disks.Link())
	case pv.Spec.CSI != nil || by != "":
		by = cmp.Or(by, pv.Spec.CSI.Driver)
		x.say("%s deletes it.", by)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: by})
	default:
		x.say("No provisioner is known that deletes it.")
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator})
		x.next("delete the volume, if its data is not needed")
	}
}

// wasOf says whose a volume was.
func (x *explainer) wasOf(pv *corev1.PersistentVolume) {
	if ref := pv.Spec.ClaimRef; ref != nil {
		x.say("Its claim %s/%s is gone.", ref.Namespace, ref.Name)
	}
}

// deletingVolume explains what keeps a volume that is being deleted.
func (x *explainer) deletingVolume(pv *corev1.PersistentVolume) {
	x.link(guide.Terminating.Link())
	ref := pv.Spec.ClaimRef
	switch {
	case pv.Status.Phase == corev1.VolumeBound && ref != nil:
		x.say("It still has claim %s/%s, so it stays until that is deleted.", ref.Namespace, ref.Name)
		x.volumeUsers(pv)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitPods, Name: ref.Namespace + "/" + ref.Name})
		x.next("if the claim is not needed: kubectl delete pvc %s -n %s", ref.Name, ref.Namespace)
		return
	case localdisks.Managed(pv):
		x.wasOf(pv)
		x.say("The finalizer %s keeps it until its disk is clean. Do not remove it: the disk is still cleaned first.", wellknown.LocalVolumeFinalizer)
		if _, reported := x.reports.OfVolume(pv.Name); !reported {
			x.say("No report has its disk.")
			x.wait(v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: local(x.nodeOf(pv)), Step: stepClean, Steps: allSteps})
			x.next("see whether the provisioner runs on the node: kubectl -n %s get pods -o wide; if the node is gone for good, see docs/operate.md, Decommission a node", x.provisioners())
		}
		return
	}
	others := slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool { return f == "kubernetes.io/pv-protection" })
	if len(others) > 0 {
		x.say("It is kept by %s.", strings.Join(others, ", "))
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: others[0]})
	}
}

// volumeUsers explains the claim of a bound volume, and the pods that use it.
func (x *explainer) volumeUsers(pv *corev1.PersistentVolume) {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return
	}
	claim := snapshot.Find[*corev1.PersistentVolumeClaim](x.s, ref.Namespace, ref.Name)
	switch {
	case claim == nil && !snapshot.Complete[*corev1.PersistentVolumeClaim](x.s):
		x.relate(KindClaim, ref.Namespace, ref.Name, "has the volume", "could not be read")
	case claim == nil || claim.UID != ref.UID && ref.UID != "":
		x.say("Its claim %s/%s does not exist any more: the PV controller releases the volume.", ref.Namespace, ref.Name)
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitPVController})
		return
	default:
		x.relate(KindClaim, ref.Namespace, ref.Name, "has the volume", string(claim.Status.Phase))
	}
	pods := x.podsOf(ref.Namespace, ref.Name)
	var running []string
	for _, pod := range pods {
		x.relate("Pod", pod.Namespace, pod.Name, "uses the claim", podState(pod))
		if pod.Spec.NodeName != "" {
			running = append(running, pod.Name)
		}
	}
	if x.report.Subject.Kind != KindVolume {
		return
	}
	switch {
	case len(running) > 0:
		x.say("Its claim is %s/%s, which is used by %s.", ref.Namespace, ref.Name, podList(running))
	case len(pods) > 0:
		x.say("Its claim is %s/%s. The pods that use it have no node.", ref.Namespace, ref.Name)
	case snapshot.Complete[*corev1.Pod](x.s):
		x.say("Its claim is %s/%s, which no pod uses.", ref.Namespace, ref.Name)
	default:
		x.say("Its claim is %s/%s.", ref.Namespace, ref.Name)
	}
}

func podList(names []string) string {
	if len(names) == 1 {
		return "pod " + names[0]
	}
	return "pods " + format.List(names, 4)
}

// podsOf returns the pods that use a claim and have not ended, sorted by name.
func (x *explainer) podsOf(namespace, claim string) []*corev1.Pod {
	var all []*corev1.Pod
	for _, pod := range snapshot.Of[*corev1.Pod](x.s) {
		if pod.Namespace == namespace && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && claims.Uses(pod, claim) {
			all = append(all, pod)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func podState(pod *corev1.Pod) string {
	state := string(pod.Status.Phase)
	if pod.DeletionTimestamp != nil {
		state = "Terminating"
	}
	if pod.Spec.NodeName != "" {
		return state + " on " + pod.Spec.NodeName
	}
	return state + ", no node"
}

// volumeState returns the state of a volume.
func (x *explainer) volumeState(name string) string {
	pv := snapshot.Find[*corev1.PersistentVolume](x.s, "", name)
	switch {
	case pv == nil && snapshot.Complete[*corev1.PersistentVolume](x.s):
		return "does not exist"
	case pv == nil:
		return "could not be read"
	case pv.DeletionTimestamp != nil:
		return string(pv.Status.Phase) + ", being deleted"
	}
	return string(pv.Status.Phase)
}

// volumeDisk explains the disk of a volume.
func (x *explainer) volumeDisk(pv *corev1.PersistentVolume) {
	d, reported := x.reports.OfVolume(pv.Name)
	if reported {
		quiet := d.State == stowage.EntryBound || d.State == stowage.EntryAvailable || d.State == stowage.EntryReleased // the phase says it
		if !quiet || d.Reason != "" {
			x.say("Its disk %s is %s%s: %s.", diskName(d), d.State, x.since(d.Since), stateMeans[d.State])
		}
		x.relate(KindDisk, "", diskName(d), "has the data", string(d.State))
		x.diskReason(d)
		x.reportAge(d.Node)
	}
	problem := match.DiskProblem(pv)
	if problem == match.Fits {
		return
	}
	mark := pv.Annotations[wellknown.DiskAnnotation]
	if !reported || string(d.State) != mark {
		x.say("Its annotation %s is %s.", wellknown.DiskAnnotation, mark)
		x.link(guide.Link(mark, guide.States))
	}
	x.say("Scheduler and extender place no pod on it; running pods are not affected.")
	x.wait(v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Reason: mark})
}

// defaultDelay is nodeLoss.delay of the controller's configuration, if that does not set it.
const defaultDelay = 5 * time.Minute

// volumeLoss explains what happens to the volume of a lost node or disk.
func (x *explainer) volumeLoss(pv *corev1.PersistentVolume) {
	node := x.nodeOf(pv)
	mark := rules.ReadMark(pv.Annotations[wellknown.LostAnnotation])
	state := nodeUnknown
	if node != "" {
		state = x.nodeState(node)
	}
	if mark == nil {
		switch {
		case state == nodeMissing:
			x.say("Node %s does not exist.", node)
			x.wait(v1alpha1.Wait{For: v1alpha1.WaitNode, Name: node})
			x.next("bring the node back under its name, or give up the volume: docs/controller.md, When a node is gone for good")
			x.link(guide.ControllerEvents.Link())
		case state == nodeNotReady:
			x.say("Node %s is not Ready.", node)
			x.wait(v1alpha1.Wait{For: v1alpha1.WaitNode, Name: node})
			x.next("kubectl stowage why node %s", node)
		}
		return
	}
	x.say("The controller counts it as lost%s: %s.", x.since(&metav1.Time{Time: mark.Since}), causes[mark.Cause])
	x.link(guide.Link("VolumeLost", guide.ControllerEvents))
	x.wait(v1alpha1.Wait{For: v1alpha1.WaitNode, Name: node, Reason: string(mark.Cause)})
	ref := pv.Spec.ClaimRef
	if ref == nil || pv.Status.Phase != corev1.VolumeBound {
		x.next("bring it back; otherwise the controller deletes the volume after the delay, if its policy is Delete")
		return
	}
	if release := rules.ReadRelease(pv.Annotations[wellknown.ReleaseAnnotation]); release != nil {
		x.say("The release of its claim began%s.", ago(&metav1.Time{Time: release.At}, x.now))
		return
	}
	terms := x.termsOf(pv)
	switch {
	case terms.Problem != "":
		x.say("The claim is kept: %s.", terms.Problem)
		x.link(guide.Link("InvalidNodeLoss", guide.ControllerEvents))
	case terms.Release:
		until := metav1.Time{Time: mark.Since.Add(terms.Delay)}
		x.say("The node-loss policy is Release: the claim is released %s after the loss, at %s, if its owner recreates it. The data is then lost.", format.Duration(terms.Delay), format.Time(until.Time))
		x.report.WaitsFor.Until = &until
		x.next("to keep the claim: kubectl annotate pvc %s -n %s --overwrite %s=%s", ref.Name, ref.Namespace, wellknown.NodeLossAnnotation, rules.Keep)
	default:
		x.say("The claim is kept: neither it nor its class has %s=%s, unless the controller's configuration releases by default.", wellknown.NodeLossAnnotation, rules.Release)
		x.next("bring it back, or give up the data: kubectl annotate pvc %s -n %s %s=%s", ref.Name, ref.Namespace, wellknown.NodeLossAnnotation, rules.Release)
	}
}

// causes are why a volume counts as lost.
var causes = map[rules.Cause]string{
	rules.NodeGone:         "its Node does not exist",
	rules.NodeOutOfService: "its Node is out of service",
	rules.MissingDisk:      "its disk is missing",
	rules.ReplacedDisk:     "its disk was replaced by another",
	rules.FailingDisk:      "its disk is failing",
}

// termsOf returns the node-loss policy of a volume's claim, without the controller's configuration.
func (x *explainer) termsOf(pv *corev1.PersistentVolume) rules.Terms {
	var objects []rules.Annotated
	if class := snapshot.Find[*storagev1.StorageClass](x.s, "", match.VolumeClass(pv)); class != nil {
		objects = append(objects, rules.Annotated{Object: "StorageClass " + class.Name, Annotations: class.Annotations})
	}
	ref := pv.Spec.ClaimRef
	if claim := snapshot.Find[*corev1.PersistentVolumeClaim](x.s, ref.Namespace, ref.Name); claim != nil {
		objects = append(objects, rules.Annotated{Object: "claim " + claim.Namespace + "/" + claim.Name, Annotations: claim.Annotations})
	}
	return rules.TermsOf(rules.Terms{Delay: defaultDelay}, objects...)
}
