// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// replica is a pod of a workload.
type replica struct {
	pod *corev1.Pod
	// claims are those that are created for the pod unless they exist.
	claims []*corev1.PersistentVolumeClaim
	// node is where the pod is already; empty if it must be placed.
	node string
}

// simulated is the hash of revisions and templates that are not in the cluster.
const simulated = "simulated"

// replicaSetOf returns the ReplicaSet that a Deployment would create.
func replicaSetOf(d *appsv1.Deployment) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{}
	rs.Namespace, rs.Name, rs.UID = d.Namespace, d.Name+"-"+simulated, simulated
	rs.Spec.Selector = d.Spec.Selector
	return rs
}

// existing returns the pods that a workload has and that run or wait, by the number of the replica.
func (w *Workload) existing(s *snapshot.Snapshot) map[int]*corev1.Pod {
	found := map[int]*corev1.Pod{}
	if w.Kind == "" {
		return found
	}
	controllers := w.controllers(s)
	var others []*corev1.Pod
	for _, pod := range snapshot.Of[*corev1.Pod](s) {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
		if pod.Namespace != w.Namespace || ended {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(pod)
		switch {
		case w.Kind == "Pod":
			if pod.Name == w.Name {
				found[0] = pod
			}
		case owner == nil || !controllers[owner.Kind+"/"+owner.Name]:
		case w.Kind == "StatefulSet":
			for i := range w.Replicas {
				if pod.Name == w.podName(i) {
					found[i] = pod
				}
			}
		default:
			others = append(others, pod)
		}
	}
	// Pods that have a node come first: the others are to be placed.
	slices.SortFunc(others, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(waiting(a), waiting(b)), cmp.Compare(a.Name, b.Name))
	})
	for i, pod := range others {
		found[i] = pod
	}
	return found
}

func waiting(pod *corev1.Pod) int {
	if pod.Spec.NodeName == "" {
		return 1
	}
	return 0
}

// controllers returns the owners of the workload's pods, as kind/name.
func (w *Workload) controllers(s *snapshot.Snapshot) map[string]bool {
	if w.Kind != "Deployment" {
		return map[string]bool{w.Kind + "/" + w.Name: true}
	}
	of := map[string]bool{}
	for _, rs := range snapshot.Of[*appsv1.ReplicaSet](s) {
		owner := metav1.GetControllerOfNoCopy(rs)
		if rs.Namespace == w.Namespace && owner != nil && owner.Kind == w.Kind && owner.Name == w.Name {
			of["ReplicaSet/"+rs.Name] = true
		}
	}
	return of
}

func (w *Workload) podName(i int) string {
	if w.Kind == "Pod" && w.Replicas == 1 {
		return w.Name
	}
	return w.Name + "-" + strconv.Itoa(w.ordinal+i)
}

// replica returns the pod of a number. existing is the one that the cluster has, or nil.
func (w *Workload) replica(i int, existing *corev1.Pod) replica {
	r := replica{pod: &corev1.Pod{ObjectMeta: *w.Template.ObjectMeta.DeepCopy(), Spec: *w.Template.Spec.DeepCopy()}}
	pod := r.pod
	pod.Namespace, pod.Name = w.Namespace, w.podName(i)
	pod.UID = types.UID(simulated + "-" + pod.Name)
	if existing != nil {
		pod.Name, pod.UID, pod.Labels = existing.Name, existing.UID, existing.Labels
		pod.Status.NominatedNodeName = existing.Status.NominatedNodeName
		r.node = existing.Spec.NodeName
	} else {
		w.label(pod, i)
	}
	if w.object != nil {
		controller := true
		kind := "ReplicaSet"
		if w.Kind == "StatefulSet" {
			kind = w.Kind
		}
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: appsv1.SchemeGroupVersion.String(), Kind: kind, Name: w.object.GetName(), UID: cmp.Or(w.object.GetUID(), simulated), Controller: &controller,
		}}
	}
	if w.object != nil && w.Kind == "StatefulSet" || w.Kind == "" {
		pod.Spec.Hostname = pod.Name
		w.addClaims(&r)
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil {
			r.claims = append(r.claims, ephemeral(pod, volume))
		}
	}
	return r
}

// label adds the labels that controllers add.
func (w *Workload) label(pod *corev1.Pod, i int) {
	labels := map[string]string{}
	maps.Copy(labels, pod.Labels)
	switch w.Kind {
	case "StatefulSet":
		labels[appsv1.StatefulSetPodNameLabel] = pod.Name
		labels[appsv1.PodIndexLabel] = strconv.Itoa(w.ordinal + i)
		labels[appsv1.ControllerRevisionHashLabelKey] = simulated
	case "Deployment":
		labels[appsv1.DefaultDeploymentUniqueLabelKey] = simulated
	case "Job":
		labels[batchv1.JobNameLabel] = w.Name
	}
	pod.Labels = labels
}

// addClaims adds the claims of the volumeClaimTemplates, and the volumes that use them.
func (w *Workload) addClaims(r *replica) {
	for i := range w.claims {
		claim := w.claims[i].DeepCopy()
		template := claim.Name
		claim.Namespace, claim.Name = w.Namespace, fmt.Sprintf("%s-%s", template, r.pod.Name)
		claim.UID = types.UID(simulated + "-" + claim.Name)
		claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
		r.claims = append(r.claims, claim)
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}
		r.pod.Spec.Volumes = slices.DeleteFunc(r.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == template })
		r.pod.Spec.Volumes = append(r.pod.Spec.Volumes, corev1.Volume{Name: template, VolumeSource: source})
	}
}

// ephemeral returns the claim of a generic ephemeral volume.
func ephemeral(pod *corev1.Pod, volume corev1.Volume) *corev1.PersistentVolumeClaim {
	template := volume.Ephemeral.VolumeClaimTemplate
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	claim.Namespace, claim.Name = pod.Namespace, pod.Name+"-"+volume.Name
	claim.UID = types.UID(simulated + "-" + claim.Name)
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
	claim.Status.Phase = corev1.ClaimPending
	return claim
}
