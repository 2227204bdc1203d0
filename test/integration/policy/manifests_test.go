// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
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
					if err := applyDryRun(t, object); err != nil {
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

func applyDryRun(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	force := true
	options := metav1.PatchOptions{DryRun: dryRun.DryRun, FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict, Force: &force}
	client := shared.admin.dynamic.Resource(plural)
	if space := object.GetNamespace(); space != "" {
		_, err = client.Namespace(space).Patch(t.Context(), object.GetName(), types.ApplyPatchType, data, options)
		return err
	}
	_, err = client.Patch(t.Context(), object.GetName(), types.ApplyPatchType, data, options)
	return err
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
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(read(t, file))))
	var objects []*unstructured.Unstructured
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, object)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(manifests, file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
