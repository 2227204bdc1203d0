// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// decisive returns the kinds without all of whose objects it cannot be said where the pod fits. The others are read
// for preemption, scores, and features that the pod does not use.
func (st *storage) decisive() []snapshot.Kind {
	kinds := []snapshot.Kind{snapshot.KindOf[*corev1.Pod](), snapshot.KindOf[*corev1.Node]()}
	if claims.Any(st.pod) {
		kinds = append(kinds, snapshot.KindOf[*corev1.PersistentVolumeClaim](), snapshot.KindOf[*corev1.PersistentVolume](), snapshot.KindOf[*storagev1.StorageClass]())
	}
	if st.usesDriver() {
		kinds = append(kinds, snapshot.KindOf[*storagev1.CSINode](), snapshot.KindOf[*storagev1.CSIDriver](), snapshot.KindOf[*storagev1.CSIStorageCapacity](), snapshot.KindOf[*storagev1.VolumeAttachment]())
	}
	if slices.ContainsFunc(snapshot.Of[*corev1.Pod](st.snapshot), selectsNamespaces) || selectsNamespaces(st.pod) {
		kinds = append(kinds, snapshot.KindOf[*corev1.Namespace]())
	}
	if len(st.pod.Spec.ResourceClaims) > 0 || requestsDevices(st.pod) {
		kinds = append(kinds, snapshot.KindOf[*resourcev1.ResourceClaim](), snapshot.KindOf[*resourcev1.ResourceSlice](), snapshot.KindOf[*resourcev1.DeviceClass]())
	}
	return kinds
}

// usesDriver reports whether a volume of the pod is of a CSI driver, or may be.
func (st *storage) usesDriver() bool {
	for _, v := range st.pod.Spec.Volumes {
		if v.CSI != nil {
			return true
		}
	}
	for use := range claims.Used(st.pod) {
		claim := st.claims[use.Name]
		if claim == nil {
			continue // no node fits
		}
		if pv := snapshot.Find[*corev1.PersistentVolume](st.snapshot, "", claim.Spec.VolumeName); pv != nil && pv.Spec.Local == nil && pv.Spec.HostPath == nil {
			return true
		}
		if class := snapshot.Find[*storagev1.StorageClass](st.snapshot, "", match.ClaimClass(claim)); class != nil && class.Provisioner != "kubernetes.io/no-provisioner" {
			return true
		}
	}
	return false
}

// selectsNamespaces reports whether the affinity of a pod selects namespaces by their labels.
func selectsNamespaces(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil {
		return false
	}
	selects := func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }
	return a.PodAffinity != nil && slices.ContainsFunc(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, selects) ||
		a.PodAntiAffinity != nil && slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, selects)
}

// requestsDevices reports whether a container requests an extended resource, which a device class can provide.
func requestsDevices(pod *corev1.Pod) bool {
	for name := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if strings.Contains(string(name), "/") {
			return true
		}
	}
	return false
}
