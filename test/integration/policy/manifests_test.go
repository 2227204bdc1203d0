// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/test/cluster"
)

// TestApply: the API server takes everything that the kustomizations list, as
// kubectl apply --server-side sends it, and knows every field.
func TestApply(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"", "startup-taint"} {
		for _, file := range resourcesOf(t, folder) {
			for _, object := range objectsOf(t, file) {
				t.Run(file+" "+object.GetKind()+" "+object.GetName(), func(t *testing.T) {
					t.Parallel()
					if err := cluster.Apply(t.Context(), shared.admin.dynamic, object, metav1.DryRunAll); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// TestNothingForgotten: every file of manifests is in a kustomization.
func TestNothingForgotten(t *testing.T) {
	listed := map[string]bool{}
	for _, folder := range []string{"", "startup-taint"} {
		listed[filepath.Join(folder, "kustomization.yaml")] = true
		for _, file := range resourcesOf(t, folder) {
			listed[file] = true
		}
	}
	err := filepath.WalkDir(manifests, func(path string, entry os.DirEntry, err error) error {
		file, _ := filepath.Rel(manifests, path)
		if err == nil && !entry.IsDir() && !listed[file] {
			t.Errorf("%s is in no kustomization", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestProvisionerPod: the namespace admits the provisioners' pod.
func TestProvisionerPod(t *testing.T) {
	t.Parallel()
	pod := provisionerPod(t)
	pod.Spec.NodeName = alpha
	if _, err := shared.admin.CoreV1().Pods(namespace).Create(t.Context(), pod, dryRun); err != nil {
		t.Error(err)
	}
}

// provisionerPod is the DaemonSet's.
func provisionerPod(t *testing.T) *corev1.Pod {
	t.Helper()
	var set appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objectsOf(t, "daemonset.yaml")[0].Object, &set); err != nil {
		t.Fatal(err)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: set.Name + "-", Labels: set.Spec.Template.Labels},
		Spec:       set.Spec.Template.Spec,
	}
}

// resourcesOf are the files that the kustomization in a folder lists.
func resourcesOf(t *testing.T, folder string) []string {
	t.Helper()
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(read(t, filepath.Join(folder, "kustomization.yaml")), &kustomization); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range kustomization.Resources {
		if !strings.HasPrefix(name, "..") { // another kustomization, with its own tests
			files = append(files, filepath.Join(folder, name))
		}
	}
	return files
}

// objectsOf are the objects in a file of the manifests.
func objectsOf(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := cluster.Objects(read(t, file))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return objects
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(manifests, file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
