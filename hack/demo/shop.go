// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowagev1alpha1 "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// shopPods are the StatefulSet's.
var shopPods = []string{"shop-0", "shop-1", "shop-2"}

// tellShop places a StatefulSet on volumes that agents have published.
func tellShop(ctx context.Context, d *demo) error {
	second := "1Gi of local-log"
	if d.disks.real {
		second += ", a raw block device"
	}
	d.say("Each replica asks 1Gi of local-data and %s. To the scheduler these are volumes like any others.", second)
	if err := d.placeShop(ctx); err != nil {
		return err
	}
	if err := d.writeSecrets(); err != nil {
		return err
	}
	d.say("Simulated pods write nothing, so the demo has put a secret into each of the six volumes.")
	return nil
}

// placeShop creates the StatefulSet, waits until its pods run and tells where.
func (d *demo) placeShop(ctx context.Context) error {
	list, err := load("shop.yaml")
	if err != nil {
		return err
	}
	if sets, _ := split[*appsv1.StatefulSet](list); d.disks.real {
		for _, set := range sets {
			useDevice(set, "log")
		}
	}
	if err := d.createAll(ctx, list); err != nil {
		return err
	}
	for _, name := range shopPods {
		pod, err := d.watch.running(ctx, name)
		if err != nil {
			return err
		}
		if err := d.tellPlaced(pod); err != nil {
			return err
		}
	}
	return nil
}

// useDevice makes a claim of the StatefulSet one for a block device.
func useDevice(set *appsv1.StatefulSet, claim string) {
	block := v1.PersistentVolumeBlock
	for i := range set.Spec.VolumeClaimTemplates {
		if template := &set.Spec.VolumeClaimTemplates[i]; template.Name == claim {
			template.Spec.VolumeMode = &block
		}
	}
	container := &set.Spec.Template.Spec.Containers[0]
	container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == claim })
	container.VolumeDevices = append(container.VolumeDevices, v1.VolumeDevice{Name: claim, DevicePath: "/dev/" + claim})
}

// tellGivenBack deletes the StatefulSet and its claims, and shows what becomes of the
// volumes.
func tellGivenBack(ctx context.Context, d *demo) error {
	d.say("The StatefulSet is deleted, and then its claims. The agents see their volumes Released, begin to delete " +
		"them so that nobody can bind them, clean the disks and publish them anew. Times count from the deletion of " +
		"the first claim.")
	sets := d.cluster.Client().AppsV1().StatefulSets(namespace)
	if err := sets.Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, name := range shopPods {
		if err := d.watch.gone(ctx, name); err != nil {
			return err
		}
	}
	var err error
	if d.former, err = d.shopVolumes(); err != nil {
		return err
	}
	d.lives.restart()
	for _, pv := range d.former {
		if err := d.cluster.Client().CoreV1().PersistentVolumeClaims(namespace).Delete(ctx, pv.Spec.ClaimRef.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	lives, err := d.watch.lifeCycles(ctx, d.lives, d.former)
	if err != nil {
		return err
	}
	if err := d.tellLives(lives); err != nil {
		return err
	}
	if err := d.checkClean(); err != nil {
		return err
	}
	d.say("No secret is left.")
	return nil
}

// shopVolumes are the volumes of the StatefulSet's claims, in order of node and path.
func (d *demo) shopVolumes() ([]*v1.PersistentVolume, error) {
	var claims []string
	for _, pod := range shopPods {
		claims = append(claims, "data-"+pod, "log-"+pod)
	}
	return d.volumesOf(claims...)
}

// volumesOf are the volumes of claims, in order of node and path.
func (d *demo) volumesOf(claims ...string) ([]*v1.PersistentVolume, error) {
	var volumes []*v1.PersistentVolume
	for _, name := range claims {
		claim, err := d.watch.claims.Get(name)
		if err != nil {
			return nil, err
		}
		pv, err := d.watch.volumes.Get(claim.Spec.VolumeName)
		if err != nil {
			return nil, err
		}
		if pv.Spec.Local == nil || pv.Spec.ClaimRef == nil {
			return nil, fmt.Errorf("volume %s of claim %s is no bound local volume", pv.Name, claim.Name)
		}
		volumes = append(volumes, pv)
	}
	slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int {
		return slices.Compare([]string{nodeOf(a), localpv.PathOf(a)}, []string{nodeOf(b), localpv.PathOf(b)})
	})
	return volumes, nil
}

// tellAgain places the StatefulSet once more, on the volumes that were cleaned.
func tellAgain(ctx context.Context, d *demo) error {
	d.say("New claims, on new volumes of the same disks:")
	if err := d.placeShop(ctx); err != nil {
		return err
	}
	volumes, err := d.shopVolumes()
	if err != nil {
		return err
	}
	if err := checkAnew(d.former, volumes); err != nil {
		return err
	}
	for _, node := range agentNodes {
		if _, err := d.report(ctx, node, func(r *stowagev1alpha1.LocalDiskReport) bool {
			return count(r, stowagev1alpha1.EntryBound) == 2
		}); err != nil {
			return err
		}
	}
	return d.tellReports(ctx)
}
