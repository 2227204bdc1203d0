// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowagev1alpha1 "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// shopPods are the pods of the StatefulSet.
var shopPods = []string{"shop-0", "shop-1", "shop-2"}

// placeShop places a StatefulSet on published volumes, and writes to them.
func placeShop(ctx context.Context, d *demo) error {
	second := "1Gi of local-log"
	if d.disks.real {
		second += ", a raw block device"
	}
	d.print("Each replica requests 1Gi of local-data and %s. For the scheduler these are volumes like any others.", second)
	if err := d.placeShop(ctx); err != nil {
		return err
	}
	if err := d.writeSecrets(); err != nil {
		return err
	}
	d.print("Simulated pods write nothing, so the demo has written a secret to each of the six volumes.")
	return nil
}

// placeShop creates the StatefulSet, waits until its pods run and prints their volumes.
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
	return d.printRunning(ctx, shopPods)
}

// useDevice sets volumeMode Block for a claim of the StatefulSet.
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

// releaseShop deletes the StatefulSet and its claims, and prints when each volume was cleaned.
func releaseShop(ctx context.Context, d *demo) error {
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
	if err := d.printCycles(lives); err != nil {
		return err
	}
	if err := d.checkClean(); err != nil {
		return err
	}
	d.print("No secret is left.")
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
			return nil, fmt.Errorf("volume %s of claim %s is not a bound local volume", pv.Name, claim.Name)
		}
		volumes = append(volumes, pv)
	}
	slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int {
		return slices.Compare([]string{nodeOf(a), localpv.PathOf(a)}, []string{nodeOf(b), localpv.PathOf(b)})
	})
	return volumes, nil
}

// placeShopAgain places the StatefulSet once more, on the volumes that were cleaned.
func placeShopAgain(ctx context.Context, d *demo) error {
	if err := d.placeShop(ctx); err != nil {
		return err
	}
	volumes, err := d.shopVolumes()
	if err != nil {
		return err
	}
	if err := checkNew(d.former, volumes); err != nil {
		return err
	}
	for _, node := range provisionerNodes {
		if _, err := d.report(ctx, node, func(r *stowagev1alpha1.LocalDiskReport) bool {
			return count(r, stowagev1alpha1.EntryBound) == 2
		}); err != nil {
			return err
		}
	}
	return d.printReports(ctx)
}

const secret = "what the first shop has sold\n"

// writeSecrets writes into each of the StatefulSet's volumes, as its pods would: a file,
// or the beginning of a device.
func (d *demo) writeSecrets() error {
	volumes, err := d.shopVolumes()
	if err != nil {
		return err
	}
	for _, pv := range volumes {
		path := secretOf(pv)
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		_, err = file.WriteString(secret)
		if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
			return fmt.Errorf("write a secret to %s: %w", path, err)
		}
	}
	return nil
}

// secretOf returns the path of the secret of a volume.
func secretOf(pv *v1.PersistentVolume) string {
	if isDevice(pv) {
		return localpv.PathOf(pv)
	}
	return filepath.Join(localpv.PathOf(pv), "secret.txt")
}

func isDevice(pv *v1.PersistentVolume) bool {
	return pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// checkClean returns an error for each secret that is left.
func (d *demo) checkClean() error {
	var errs []error
	for _, pv := range d.former {
		errs = append(errs, checkErased(pv))
	}
	return errors.Join(errs...)
}

func checkErased(pv *v1.PersistentVolume) error {
	path := secretOf(pv)
	if !isDevice(pv) {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s should have been removed: %w", path, errors.Join(err, errLeft))
		}
		return nil
	}
	device, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	begin := make([]byte, 1<<20)
	if _, err := io.ReadFull(device, begin); err != nil {
		return err
	}
	if len(bytes.Trim(begin, "\x00")) > 0 {
		return fmt.Errorf("%s should read as zeros: %w", path, errLeft)
	}
	return nil
}

var errLeft = errors.New("a volume was published again with data of its former pod")
