// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// disks counts the disks that volumes were made of, so that each has its name.
var disks atomic.Int64

// volume is one that the provisioner of a node publishes for a new disk.
func volume(node, hostname string) *corev1.PersistentVolume {
	name := fmt.Sprintf("disk%d", disks.Add(1))
	pv, problem := localpv.Volume(localpv.Request{
		Node:  localpv.Node{Name: node, Hostname: hostname},
		Class: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}},
		Disk: disk.Fact{
			Key:      disk.Key{Class: class, Name: name},
			HostPath: "/mnt/disks/" + name,
			Kind:     disk.Mount,
			Identity: disk.Identity("fs:0f4a:" + name),
			Bytes:    1 << 30,
		},
		Offer:      localpv.Offer{Mode: disk.Filesystem},
		Generation: localpv.FirstGeneration,
	})
	if problem != nil {
		panic(problem) // of this file alone
	}
	return pv
}

// creates makes the request a function, tried without storing anything.
func (u *user) creates(pv *corev1.PersistentVolume) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := u.CoreV1().PersistentVolumes().Create(ctx, pv, dryRun)
		return err
	}
}

// published is a volume that its node's provisioner has created.
func published(t *testing.T, node string) *corev1.PersistentVolume {
	t.Helper()
	host := node
	if node == gamma {
		host = gammaHost
	}
	pv, err := shared.provisioners[node].CoreV1().PersistentVolumes().Create(t.Context(), volume(node, host), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pv
}

// report is a page of a LocalDiskReport.
func report(name, node string, page int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "stowage.dev/v1alpha1",
		"kind":       "LocalDiskReport",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"nodeName": node, "page": page},
	}}
}

func (u *user) createsReport(r *unstructured.Unstructured) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := u.reports().Create(ctx, r, dryRun)
		return err
	}
}

// patchNode tries a merge patch on a Node without storing it.
func (u *user) patchNode(ctx context.Context, node, patch string, subresources ...string) error {
	_, err := u.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun.DryRun}, subresources...)
	return err
}

// patchVolume stores a merge patch of a volume.
func (u *user) patchVolume(ctx context.Context, name, patch string, subresources ...string) error {
	_, err := u.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}
