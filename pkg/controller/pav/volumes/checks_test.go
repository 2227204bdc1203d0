// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/pav/helperpod"
)

// checkStart checks what must hold when the containers of a helper pod start.
func (c *cluster) checkStart(pod *corev1.Pod) {
	c.t.Helper()
	volume := get[stowage.PavVolume](c, key{"pavvolumes", "", pod.OwnerReferences[0].Name})
	if volume == nil || volume.UID != pod.OwnerReferences[0].UID || volume.Status.Step == nil || volume.Status.Step.PodName != pod.Name {
		c.t.Errorf("pod %s starts, which no PavVolume announces", pod.Name)
		return
	}
	pv := get[corev1.PersistentVolume](c, key{"persistentvolumes", "", volume.Name})
	if pod.Labels[wellknown.PavStepLabel] == string(helperpod.Deletion) && pv != nil && pv.Status.Phase != corev1.VolumeReleased {
		c.t.Errorf("pod %s deletes a volume that is %s", pod.Name, pv.Status.Phase)
	}
	if pod.Labels[wellknown.PavStepLabel] == string(helperpod.Creation) && c.storage[claimOf(pod)] {
		c.t.Errorf("pod %s creates a volume of which something exists", pod.Name)
	}
}

// check checks what always holds.
func (c *cluster) check() {
	c.t.Helper()
	pods := map[string]int{}
	for _, k := range c.keys("pods") {
		if pods[claimOf(get[corev1.Pod](c, k))]++; pods[claimOf(get[corev1.Pod](c, k))] > 1 {
			c.t.Errorf("two helper pods of a volume exist: %v", c.keys("pods"))
		}
	}
	for uid := range c.storage {
		if c.objects[key{"pavvolumes", "", "pvc-" + uid}] == nil {
			c.t.Errorf("the volume of claim %s is an orphan: it has no PavVolume", uid)
		}
	}
	for _, k := range c.keys("persistentvolumes") {
		pv := get[corev1.PersistentVolume](c, k)
		if pv.Status.Phase == corev1.VolumeBound && !c.storage[string(pv.Spec.ClaimRef.UID)] {
			c.t.Errorf("PersistentVolume %s is bound, but its volume does not exist", k.name)
		}
	}
}

// summary lists what exists of volumes: PavVolumes and PersistentVolumes by phase, pods, and
// volumes of the storage system.
func (c *cluster) summary() []string {
	var all []string
	for _, k := range c.keys("pavvolumes") {
		all = append(all, fmt.Sprintf("%s %s", k.resource, get[stowage.PavVolume](c, k).Status.Phase))
	}
	for _, k := range c.keys("persistentvolumes") {
		all = append(all, fmt.Sprintf("%s %s", k.resource, get[corev1.PersistentVolume](c, k).Status.Phase))
	}
	for range c.keys("pods") {
		all = append(all, "pods")
	}
	for range c.storage {
		all = append(all, "storage")
	}
	return all
}
