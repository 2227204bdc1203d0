// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover_test

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// The forms of the reference's name as a provisioner.
const (
	withUID = true
	byName  = false
)

// reference publishes a slot's disk as the reference does, and returns the volume once
// it is Available.
func reference(n *node.Node, class, name string, uid bool) *corev1.PersistentVolume {
	e := n.Env
	e.T.Helper()
	b := inReferenceForm(n, class, name)
	if uid {
		object, err := e.Client.CoreV1().Nodes().Get(e.Context(), n.Name, metav1.GetOptions{})
		if err != nil {
			e.T.Fatal(err)
		}
		b.ProvisionedBy("local-volume-provisioner-" + n.Name + "-" + string(object.UID))
	}
	return create(e, b.Obj())
}

// inReferenceForm is a volume as the reference makes it with useNodeNameOnly.
func inReferenceForm(n *node.Node, class, name string) *builders.PV {
	b := n.Env.PV(name).Name(localpv.ReferenceName(n.Name, disk.Key{Class: class, Name: name})).Class(class).Hostname(n.Name).
		Capacity("40Mi").ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).ProvisionedBy("local-volume-provisioner-" + n.Name).
		Source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: n.PathOf(class, name)}})
	if class == n.Blocks {
		return b.Block()
	}
	return b.VolumeMode(corev1.PersistentVolumeFilesystem)
}

// create creates a volume and waits until it is Available.
func create(e *fixture.Env, pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	e.T.Helper()
	if _, err := e.Client.CoreV1().PersistentVolumes().Create(e.Context(), pv, metav1.CreateOptions{}); err != nil {
		e.T.Fatal(err)
	}
	return wait(e, pv.Name, "Available", inPhase(corev1.VolumeAvailable))
}

// wait waits until is accepts a volume of either provisioner.
func wait(e *fixture.Env, name, what string, is func(*corev1.PersistentVolume) bool) *corev1.PersistentVolume {
	e.T.Helper()
	var seen *corev1.PersistentVolume
	e.Wait("volume "+name+" to be "+what, func() bool {
		seen = nil
		for _, pv := range e.AllPVs() {
			if pv.Name == name {
				seen = pv
			}
		}
		return is(seen)
	})
	return seen
}

func inPhase(phase corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) bool {
	return func(pv *corev1.PersistentVolume) bool { return pv != nil && pv.Status.Phase == phase }
}

func gone(pv *corev1.PersistentVolume) bool { return pv == nil }

// bind has a claim of the volume's name bound to it.
func bind(e *fixture.Env, pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	e.T.Helper()
	claim := e.PVC(pv.Name).Class(pv.Spec.StorageClassName).Request("1Mi").VolumeName(pv.Name)
	if *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		claim.Block()
	}
	e.CreatePVC(claim)
	return wait(e, pv.Name, "bound", inPhase(corev1.VolumeBound))
}

// release deletes the claim that bind made.
func release(e *fixture.Env, pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	e.T.Helper()
	e.DeletePVC(pv.Name)
	return wait(e, pv.Name, "released", inPhase(corev1.VolumeReleased))
}

// versions are the resource versions of volumes as the API server has them.
func versions(e *fixture.Env, volumes ...*corev1.PersistentVolume) map[string]string {
	e.T.Helper()
	found := map[string]string{}
	for _, pv := range volumes {
		found[pv.Name] = live(e, pv).ResourceVersion
	}
	return found
}

// live is the API server's state of a volume.
func live(e *fixture.Env, pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	e.T.Helper()
	found, err := e.Client.CoreV1().PersistentVolumes().Get(e.Context(), pv.Name, metav1.GetOptions{})
	if err != nil {
		e.T.Fatal(err)
	}
	return found
}

// runReference adds a DaemonSet of the reference with a pod on the node, which has no
// kubelet, and returns the function that removes the pod.
func runReference(n *node.Node) (remove func()) {
	e := n.Env
	e.T.Helper()
	labels := map[string]string{"app": "local-volume-provisioner"}
	pod := e.Pod("local-volume-provisioner").Obj()
	pod.Labels, pod.Spec.NodeName = labels, n.Name
	pod.Spec.Containers[0].Image = "registry.k8s.io/sig-storage/local-volume-provisioner:v2.9.0"
	_, err := e.Client.AppsV1().DaemonSets(e.Namespace).Create(e.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: pod.Spec.Containers}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		e.T.Fatal(err)
	}
	running := e.CreatePodObject(pod)
	return func() { e.DeletePod(running) }
}
