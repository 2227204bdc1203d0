// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
)

// sample is the configuration that is shipped.
func sample(t *testing.T) *provisioner.ProvisionerConfiguration {
	t.Helper()
	config, err := provisioner.Decode(dataOf(t, "configmap.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// dataOf is the data of the ConfigMap in a file.
func dataOf(t *testing.T, file string) map[string]string {
	t.Helper()
	data, _, err := unstructured.NestedStringMap(objectsOf(t, file)[0].Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSampleClasses: each class of the sample exists, and provisioners may publish it.
func TestSampleClasses(t *testing.T) {
	var existing []string
	configured := slices.Sorted(maps.Keys(sample(t).Classes))
	for _, object := range objectsOf(t, "storageclass.yaml") {
		existing = append(existing, object.GetName())
	}
	slices.Sort(existing)
	if diff := cmp.Diff(existing, configured); diff != "" {
		t.Errorf("classes (-storageclass.yaml +configmap.yaml):\n%s", diff)
	}
	listed := strings.Split(dataOf(t, "nodes.yaml")["classes"], ",")
	if diff := cmp.Diff(listed, configured); diff != "" {
		t.Errorf("classes (-nodes.yaml +configmap.yaml):\n%s", diff)
	}
}

// TestSampleFolders: the pod has each class's folder at the path of the sample, sees
// later mounts there, and can write to it.
func TestSampleFolders(t *testing.T) {
	pod := provisionerPod(t)
	hosts := map[string]string{}
	for _, volume := range pod.Spec.Volumes {
		if volume.HostPath != nil {
			hosts[volume.Name] = volume.HostPath.Path
		}
	}
	for _, class := range sample(t).Classes {
		mounted := slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			inHost, err := filepath.Rel(hosts[m.Name], class.HostDir)
			inPod, err2 := filepath.Rel(m.MountPath, class.MountDir)
			return hosts[m.Name] != "" && err == nil && err2 == nil && inHost == inPod && filepath.IsLocal(inHost) &&
				!m.ReadOnly && m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationHostToContainer
		})
		if !mounted {
			t.Errorf("no volume of the pod has %s of the node at %s", class.HostDir, class.MountDir)
		}
	}
}
