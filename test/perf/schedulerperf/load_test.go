// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
	compat "stowage.dev/kubecompat/schedulerperf"
)

const (
	localClass  = "local"
	driverClass = "capacity"
	driver      = "perf.csi.stowage.dev"

	volumeSize = "10Gi"
	claimSize  = "1Gi"

	// writers is how many requests are under way at a time.
	writers = 30
)

// load has the objects of one workload in addition to scheduler_perf's. Zero for
// workloads of other topics.
type load struct {
	volumesPerNode, gibibytesPerNode int
	claimsPerPod                     int
	pods                             map[string]int // by namespace
}

// loadOf reads the parameters of a workload. One that is not there counts as 0.
func loadOf(w compat.Workload) load {
	param := func(name string) int {
		value, err := w.GetParam(name)
		if err != nil {
			return 0
		}
		return value
	}
	return load{
		volumesPerNode:   param("volumesPerNode"),
		gibibytesPerNode: param("gibibytesPerNode"),
		claimsPerPod:     param("claimsPerPod"),
		pods:             map[string]int{"claims-0": param("initPods"), "claims-1": param("measurePods")},
	}
}

// class of the claims; empty without claims.
func (l load) class() string {
	switch {
	case l.volumesPerNode > 0:
		return localClass
	case l.gibibytesPerNode > 0:
		return driverClass
	}
	return ""
}

// nodesMade is called when scheduler_perf has created a workload's nodes. It creates
// the additional objects of the workload, starts the provisioner, and starts to
// time pods.
func nodesMade(tCtx compat.TContext, sched *scheduler.Scheduler, w compat.Workload, nodes *v1.NodeList) error {
	profile, err := profileOf(sched)
	if err != nil {
		return err
	}
	if err := watchPods(tCtx, profile); err != nil {
		return err
	}
	l := loadOf(w)
	if l.class() == "" {
		return nil
	}
	client := tCtx.Client()
	if err := l.makeClass(tCtx, client); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(tCtx)
	group.SetLimit(writers)
	for i := range nodes.Items {
		group.Go(func() error { return l.equip(ctx, client, nodes.Items[i].Name) })
	}
	for namespace, pods := range l.pods {
		for pod := range pods {
			group.Go(func() error { return l.makeClaims(ctx, client, namespace, pod) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if l.gibibytesPerNode > 0 {
		if err := startProvisioner(tCtx); err != nil {
			return err
		}
	}
	tCtx.Cleanup(func() {
		if err := l.check(tCtx, client); err != nil {
			tCtx.Errorf("check the claims of scheduled pods: %v", err)
		}
	})
	return nil
}

// check that each claim has got a volume, and no volume two claims: a scheduler
// that is fast by mistake is not fast.
func (l load) check(ctx context.Context, client kubernetes.Interface) error {
	owner := map[string]string{} // claim by volume
	var faults []error
	for namespace, pods := range l.pods {
		claims, err := client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if got, want := len(claims.Items), pods*l.claimsPerPod; got != want {
			faults = append(faults, fmt.Errorf("namespace %s has %d claims, not %d", namespace, got, want))
		}
		for _, claim := range claims.Items {
			name, volume := namespace+"/"+claim.Name, claim.Spec.VolumeName
			if volume == "" {
				faults = append(faults, fmt.Errorf("claim %s has no volume", name))
			} else if other, taken := owner[volume]; taken {
				faults = append(faults, fmt.Errorf("claims %s and %s both have volume %s", other, name, volume))
			}
			owner[volume] = name
		}
	}
	return errors.Join(faults...)
}

func (l load) makeClass(ctx context.Context, client kubernetes.Interface) error {
	class := &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: l.class()},
		Provisioner:       "kubernetes.io/no-provisioner",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	if l.gibibytesPerNode > 0 {
		class.Provisioner = driver
		object := &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driver},
			Spec:       storagev1.CSIDriverSpec{StorageCapacity: new(true), AttachRequired: new(false)},
		}
		if _, err := client.StorageV1().CSIDrivers().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create CSIDriver: %w", err)
		}
	}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create StorageClass: %w", err)
	}
	return nil
}

// equip creates a node's volumes, and its CSIStorageCapacity.
func (l load) equip(ctx context.Context, client kubernetes.Interface, node string) error {
	for i := range l.volumesPerNode {
		if err := makeVolume(ctx, client, localVolume(node, i), v1.VolumeAvailable); err != nil {
			return err
		}
	}
	if l.gibibytesPerNode == 0 {
		return nil
	}
	capacity := &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Name: node, Namespace: metav1.NamespaceDefault},
		StorageClassName: driverClass,
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelHostname: node}},
		Capacity:         new(resource.MustParse(fmt.Sprintf("%dGi", l.gibibytesPerNode))),
	}
	if _, err := client.StorageV1().CSIStorageCapacities(capacity.Namespace).Create(ctx, capacity, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create CSIStorageCapacity of node %s: %w", node, err)
	}
	return nil
}

// makeVolume writes a volume and its phase, as the PV controller would; there
// is none that writes phases.
func makeVolume(ctx context.Context, client kubernetes.Interface, volume *v1.PersistentVolume, phase v1.PersistentVolumePhase) error {
	made, err := client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create PV %s: %w", volume.Name, err)
	}
	made.Status.Phase = phase
	if _, err := client.CoreV1().PersistentVolumes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update status of PV %s: %w", volume.Name, err)
	}
	return nil
}

// makeClaims makes the claims that the pod templates name.
func (l load) makeClaims(ctx context.Context, client kubernetes.Interface, namespace string, pod int) error {
	for i := range l.claimsPerPod {
		claim := &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%d-%d", pod, i), Namespace: namespace},
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				StorageClassName: new(l.class()),
				Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(claimSize)}},
			},
		}
		if _, err := client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create claim %s/%s: %w", namespace, claim.Name, err)
		}
	}
	return nil
}
