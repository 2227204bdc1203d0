// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// What each node has. The last volumes have no claim.
const (
	volumesPerNode = 10
	claimsPerNode  = 5
	capacity       = 100 << 30
)

var class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast-disks"}, Provisioner: "kubernetes.io/no-provisioner"}

func nodeName(n int) string     { return fmt.Sprintf("node-%d", n) }
func setName(n int) string      { return fmt.Sprintf("set-%d", n) }
func claimName(n, i int) string { return fmt.Sprintf("data-%s-%d", setName(n), i) }
func claimKey(n, i int) string  { return namespace + "/" + claimName(n, i) }
func diskName(i int) string     { return fmt.Sprintf("disk-%d", i) }
func identity(n, i int) string  { return fmt.Sprintf("wwn:%08d%08d", n, i) }
func volumeName(n, i int) string {
	return localpv.Name(nodeName(n), request(n, i).Disk.Key, localpv.FirstGeneration)
}

// request is a provisioner's request for a volume.
func request(n, i int) localpv.Request {
	return localpv.Request{
		Node: localpv.Node{Name: nodeName(n), Hostname: nodeName(n)}, Class: class, Generation: localpv.FirstGeneration,
		Disk: disk.Fact{
			Key: disk.Key{Class: class.Name, Name: diskName(i)}, HostPath: "/mnt/fast-disks/" + diskName(i), Kind: disk.Mount,
			Identity: disk.Identity(identity(n, i)), Bytes: capacity,
		},
		Offer: localpv.Offer{Mode: disk.Filesystem},
	}
}

// fill makes nodes, and what each of them has.
func (w *world) fill(ctx context.Context, nodes int) error {
	if _, err := w.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	return each(ctx, nodes, func(ctx context.Context, n int) error {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(n), Labels: map[string]string{corev1.LabelHostname: nodeName(n)}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		if _, err := w.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
		set, err := w.client.AppsV1().StatefulSets(namespace).Create(ctx, setOf(n), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		for i := range volumesPerNode {
			if err := w.volume(ctx, set, n, i); err != nil {
				return err
			}
		}
		return w.report(ctx, n)
	})
}

// setOf is a StatefulSet that has all of its pods on one node.
func setOf(n int) *appsv1.StatefulSet {
	labels, replicas := map[string]string{"app": setName(n)}, int32(claimsPerNode)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: setName(n)},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec("", "")},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimSpec("")}},
		},
	}
}

func claimSpec(volume string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class.Name, VolumeName: volume,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(capacity, resource.BinarySI)}},
	}
}

// podSpec is that of a pod on a node with a claim; both may be empty.
func podSpec(node, claim string) corev1.PodSpec {
	spec := corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "registry.example/c"}}}
	if claim != "" {
		spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
	return spec
}

// volume makes a volume, and its claim and pod if it has any.
func (w *world) volume(ctx context.Context, set *appsv1.StatefulSet, n, i int) error {
	volume, problem := localpv.Volume(request(n, i))
	if problem != nil {
		return problem
	}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if i >= claimsPerNode {
		if _, err := w.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
			return err
		}
		return w.phase(ctx, volume.Name, corev1.VolumeAvailable)
	}
	claim, err := w.client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimName(n, i), Labels: map[string]string{"app": setName(n)}}, Spec: claimSpec(volume.Name),
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: claim.Name, UID: claim.UID}
	if _, err := w.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := w.phase(ctx, volume.Name, corev1.VolumeBound); err != nil {
		return err
	}
	owner := metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	_, err = w.client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", setName(n), i), Labels: claim.Labels, OwnerReferences: []metav1.OwnerReference{*owner}},
		Spec:       podSpec(nodeName(n), claim.Name),
	}, metav1.CreateOptions{})
	return err
}

// phase does as the PersistentVolume controller would.
func (w *world) phase(ctx context.Context, volume string, phase corev1.PersistentVolumePhase) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)
	_, err := w.client.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// report makes a node's report, with an entry for each volume.
func (w *world) report(ctx context.Context, n int) error {
	report, err := w.reports.Create(ctx, &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(n)}, Spec: stowage.LocalDiskReportSpec{NodeName: nodeName(n), Page: 1},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for i := range volumesPerNode {
		state := stowage.EntryAvailable
		if i < claimsPerNode {
			state = stowage.EntryBound
		}
		report.Status.Entries = append(report.Status.Entries, stowage.Entry{
			Class: class.Name, Name: diskName(i), Path: "/mnt/fast-disks/" + diskName(i), State: state, Volume: volumeName(n, i),
			Identity: identity(n, i), Kind: "Mount", Mode: "Filesystem", Bytes: capacity,
		})
	}
	_, err = w.reports.UpdateStatus(ctx, report, metav1.UpdateOptions{})
	return err
}
