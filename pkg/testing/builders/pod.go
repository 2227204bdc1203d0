// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod builds a Pod.
type Pod struct{ pod v1.Pod }

// MakePod starts a Pending pod with one container, in DefaultNamespace.
func MakePod(name string) *Pod {
	return &Pod{v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: name},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}}
}

// Obj returns a copy of what was built.
func (b *Pod) Obj() *v1.Pod { return b.pod.DeepCopy() }

// Name sets metadata.name, to use the builder as a template.
func (b *Pod) Name(name string) *Pod { b.pod.Name = name; return b }

// Namespace sets metadata.namespace.
func (b *Pod) Namespace(namespace string) *Pod { b.pod.Namespace = namespace; return b }

// UID sets metadata.uid.
func (b *Pod) UID(uid string) *Pod { b.pod.UID = types.UID(uid); return b }

// ResourceVersion sets metadata.resourceVersion.
func (b *Pod) ResourceVersion(rv string) *Pod { b.pod.ResourceVersion = rv; return b }

// Label adds one label.
func (b *Pod) Label(key, value string) *Pod { set(&b.pod.Labels, key, value); return b }

// Annotation adds one annotation.
func (b *Pod) Annotation(key, value string) *Pod { set(&b.pod.Annotations, key, value); return b }

// Node sets spec.nodeName: the pod has been placed.
func (b *Pod) Node(name string) *Pod { b.pod.Spec.NodeName = name; return b }

// NominatedNode sets status.nominatedNodeName.
func (b *Pod) NominatedNode(name string) *Pod { b.pod.Status.NominatedNodeName = name; return b }

// NodeSelector requires one node label.
func (b *Pod) NodeSelector(key, value string) *Pod {
	set(&b.pod.Spec.NodeSelector, key, value)
	return b
}

// SchedulerName sets the scheduler or profile that places the pod.
func (b *Pod) SchedulerName(name string) *Pod { b.pod.Spec.SchedulerName = name; return b }

// Priority sets spec.priority.
func (b *Pod) Priority(p int32) *Pod { b.pod.Spec.Priority = &p; return b }

// Phase sets status.phase.
func (b *Pod) Phase(phase v1.PodPhase) *Pod { b.pod.Status.Phase = phase; return b }

// Deleting marks the pod as being deleted.
func (b *Pod) Deleting() *Pod { b.pod.DeletionTimestamp = deletedAt.DeepCopy(); return b }

// Requests sets the container's requests, such as "100m" and "1Gi";
// an empty string leaves the resource out.
func (b *Pod) Requests(cpu, memory string) *Pod {
	requests := v1.ResourceList{}
	for name, quantity := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if quantity != "" {
			requests[name] = resource.MustParse(quantity)
		}
	}
	b.pod.Spec.Containers[0].Resources.Requests = requests
	return b
}

// Extended adds a request for, and limit of, an extended resource.
func (b *Pod) Extended(name v1.ResourceName, amount string) *Pod {
	resources := &b.pod.Spec.Containers[0].Resources
	for _, list := range []*v1.ResourceList{&resources.Requests, &resources.Limits} {
		if *list == nil {
			*list = v1.ResourceList{}
		}
		(*list)[name] = resource.MustParse(amount)
	}
	return b
}

// PVC adds one volume for each of the claims; naming a claim twice makes two
// volumes of it. Volumes are called vol-0, vol-1 and so on.
func (b *Pod) PVC(claims ...string) *Pod {
	for _, claim := range claims {
		b.Volume(v1.Volume{
			Name: fmt.Sprintf("vol-%d", len(b.pod.Spec.Volumes)),
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
	b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, *volume.DeepCopy())
	return b
}
