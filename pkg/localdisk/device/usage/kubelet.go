// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"path/filepath"
	"slices"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// kubeletLocal is the name of kubelet's folders for local volumes.
const kubeletLocal = "kubernetes.io~local-volume"

// kubeletPlaces are the folders in which kubelet has one entry per local volume, by
// their last elements: a pod's volumes and raw devices, the latter's nodes, the file
// systems that kubelet has mounted of devices, and a pod's folders within volumes.
var kubeletPlaces = []string{
	kubeletLocal,
	kubeletLocal + "/volumeDevices",
	"kubernetes.io/local-volume/mounts",
	"volume-subpaths",
}

// kubelet returns the entries of a volume in kubelet's folder. Only names are read: mounts are
// not accessed.
func (f *Finder) kubelet(volume string) ([]use, error) {
	if volume == "" {
		return nil, nil
	}
	pods, err := list(filepath.Join(f.config.KubeletPath, "pods"))
	if err != nil {
		return nil, fmt.Errorf("list pods in kubelet's folder: %w", err)
	}
	if pods == nil {
		return nil, fmt.Errorf("kubelet's folder: %s has no folder pods", f.config.KubeletPath)
	}
	folders := []string{
		filepath.Join("plugins", kubeletLocal, "volumeDevices"),
		"plugins/kubernetes.io/local-volume/mounts",
	}
	for _, pod := range pods {
		folders = append(folders,
			filepath.Join("pods", pod, "volumes", kubeletLocal),
			filepath.Join("pods", pod, "volumeDevices", kubeletLocal))
	}
	var uses []use
	for _, folder := range folders {
		names, err := list(filepath.Join(f.config.KubeletPath, folder))
		if err != nil {
			return nil, fmt.Errorf("find the volume in kubelet's folder: %w", err)
		}
		if slices.Contains(names, volume) {
			where := filepath.Join(f.config.KubeletDir, folder, volume)
			uses = append(uses, use{User: disk.User{What: byKubelet, Where: where}, path: where})
		}
	}
	return uses, nil
}
