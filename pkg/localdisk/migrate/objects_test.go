// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/testing/builders"
)

const (
	nodeUID  = "6b9a1c1e-0000-4000-8000-0123456789ab"
	otherUID = "6b9a1c1e-0000-4000-8000-ba9876543210"
)

// configuration has class fast in /mnt/fast, and raw (Block) in /mnt/raw.
func configuration(t *testing.T) *provisioner.ProvisionerConfiguration {
	t.Helper()
	config, err := provisioner.Decode(map[string]string{"storageClassMap": "fast: {hostDir: /mnt/fast}\nraw: {hostDir: /mnt/raw, volumeMode: Block}"})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// cluster has the nodes a and b, whose hostname labels are a-host and b-host, and two
// more that share one.
func cluster(objects ...runtime.Object) *fake.Clientset {
	for name, host := range map[string]string{"a": "a-host", "b": "b-host", "twin1": "twin", "twin2": "twin"} {
		node := builders.MakeNode(name).Hostname(host).Obj()
		node.UID = nodeUID
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		objects = append(objects, node)
	}
	return fake.NewClientset(objects...)
}

// reference is a volume as the reference creates it for a disk of node a.
func reference(name string) *builders.PV {
	return builders.MakePV(name).UID("uid-" + name).Class("fast").Hostname("a-host").Source(path("/mnt/fast/" + name)).
		ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).ProvisionedBy("local-volume-provisioner-a-" + nodeUID)
}

func path(path string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
}

// changed is a volume with changes for which builders have no method.
func changed(b *builders.PV, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := b.Obj()
	change(pv)
	return pv
}

// referencePod is a pod of the reference on a node, with its DaemonSet.
func referencePod(node string, spec corev1.PodSpec) []runtime.Object {
	labels := map[string]string{"app": "local-volume-provisioner"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "provisioner-" + node, Labels: labels}, Spec: spec}
	pod.Spec.NodeName = node
	return []runtime.Object{pod, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "provisioner"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}}
}

func image(name string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "provisioner", Image: name}}}
}

// cleaningJob is a cleaning job of the reference.
func cleaningJob(volume string, conditions ...batchv1.JobCondition) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "cleanup-" + volume, Labels: map[string]string{"pv": volume, "pvuuid": "uid-" + volume}},
		Status:     batchv1.JobStatus{Conditions: conditions},
	}
}

// ourJob is a cleaning Job of Stowage for a volume of a node, ourPod its pod.
func ourJob(volume, node string, conditions ...batchv1.JobCondition) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "stowage-system", Name: "clean-uid-" + volume, UID: types.UID("job-" + volume),
			Labels: map[string]string{wellknown.CleaningLabel: "uid-" + volume}, Annotations: map[string]string{wellknown.NodeNameAnnotation: node},
		},
		Status: batchv1.JobStatus{Conditions: conditions},
	}
}

func ourPod(volume, node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "stowage-system", Name: "clean-uid-" + volume + "-x", Labels: map[string]string{wellknown.CleaningLabel: "uid-" + volume}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
}

// provisionerPod is a pod of a provisioner on a node.
func provisionerPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "stowage-system", Name: "stowage-provisioner-" + node},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: "stowage-provisioner"},
	}
}
