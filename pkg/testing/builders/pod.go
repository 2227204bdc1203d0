// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod builds a Pod.
type Pod struct{ builder[*v1.Pod, *Pod] }

// MakePod starts a Pending pod with one container, in DefaultNamespace.
func MakePod(name string) *Pod {
	b := &Pod{}
	return b.begin(b, &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: name},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	})
}

// Node sets spec.nodeName: the pod has been placed.
func (b *Pod) Node(name string) *Pod { b.object.Spec.NodeName = name; return b }

// NominatedNode sets status.nominatedNodeName.
func (b *Pod) NominatedNode(name string) *Pod { b.object.Status.NominatedNodeName = name; return b }

// NodeSelector requires one node label.
func (b *Pod) NodeSelector(key, value string) *Pod {
	b.object.Spec.NodeSelector = with(b.object.Spec.NodeSelector, key, value)
	return b
}

// SchedulerName sets the scheduler or profile that places the pod.
func (b *Pod) SchedulerName(name string) *Pod { b.object.Spec.SchedulerName = name; return b }

// Priority sets spec.priority.
func (b *Pod) Priority(p int32) *Pod { b.object.Spec.Priority = &p; return b }

// Phase sets status.phase.
func (b *Pod) Phase(phase v1.PodPhase) *Pod { b.object.Status.Phase = phase; return b }

// Deleting marks the pod as being deleted.
func (b *Pod) Deleting() *Pod { b.object.DeletionTimestamp = deletedAt.DeepCopy(); return b }

// Requests sets the container's requests, such as "100m" and "1Gi";
// an empty string leaves the resource out.
func (b *Pod) Requests(cpu, memory string) *Pod {
	requests := v1.ResourceList{}
	for name, quantity := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if quantity != "" {
			requests[name] = resource.MustParse(quantity)
		}
	}
	b.object.Spec.Containers[0].Resources.Requests = requests
	return b
}

// PVC adds one volume for each of the claims; naming a claim twice makes two
// volumes of it. Volumes are called vol-0, vol-1 and so on.
func (b *Pod) PVC(claims ...string) *Pod {
	for _, claim := range claims {
		b.Volume(v1.Volume{
			Name: fmt.Sprintf("vol-%d", len(b.object.Spec.Volumes)),
			VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			},
		})
	}
	return b
}

// Ephemeral adds a generic ephemeral volume; its claim, called
// <pod>-<volume>, takes the template's labels, annotations and spec.
func (b *Pod) Ephemeral(volume string, template *v1.PersistentVolumeClaim) *Pod {
	template = template.DeepCopy()
	return b.Volume(v1.Volume{
		Name: volume,
		VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations},
				Spec:       template.Spec,
			},
		}},
	})
}

// Volume adds one volume as it is.
func (b *Pod) Volume(volume v1.Volume) *Pod {
	b.object.Spec.Volumes = append(b.object.Spec.Volumes, *volume.DeepCopy())
	return b
}
