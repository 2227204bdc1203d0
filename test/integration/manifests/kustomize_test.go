// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// kustomization is what is looked at of a kustomization.yaml.
type kustomization struct {
	Resources          []string `json:"resources"`
	ConfigMapGenerator []struct {
		Files []string `json:"files"`
	} `json:"configMapGenerator"`
}

// kustomizations are all there are, by folder.
func kustomizations(t *testing.T) map[string]kustomization {
	t.Helper()
	found := map[string]kustomization{}
	err := filepath.WalkDir(files, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel(files, filepath.Dir(path))
		var k kustomization
		err = yaml.Unmarshal(data, &k)
		found[folder] = k
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// apart are files of no kustomization: those that processes read which Kubernetes does
// not start, and what is applied by itself.
var apart = []string{"controller/cleaning-jobs.yaml", "scheduler/only/config.yaml", "extender/full/scheduler.yaml", "extender/advisory/scheduler.yaml"}

// TestNothingForgotten: every file is in a kustomization of its folder, or below it.
func TestNothingForgotten(t *testing.T) {
	t.Parallel()
	listed := slices.Clone(apart)
	for folder, k := range kustomizations(t) {
		listed = append(listed, filepath.Join(folder, "kustomization.yaml"))
		for _, file := range k.Resources {
			listed = append(listed, filepath.Join(folder, file))
		}
		for _, generator := range k.ConfigMapGenerator {
			for _, file := range generator.Files {
				listed = append(listed, filepath.Join(folder, file))
			}
		}
	}
	err := filepath.WalkDir(files, func(path string, entry fs.DirEntry, err error) error {
		file, _ := filepath.Rel(files, path)
		if entry.IsDir() && file == "charts" {
			return filepath.SkipDir
		}
		if err == nil && !entry.IsDir() && !slices.Contains(listed, file) {
			t.Errorf("%s is in no kustomization", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var applied sync.Once

// install applies the default overlay, once, so that its namespace and kinds are there.
func install(t *testing.T) {
	t.Helper()
	applied.Do(func() {
		for _, o := range installOrder(kustomize(t, "overlays/default")) {
			if err := apply(t.Context(), admin, o); err != nil {
				t.Error(err)
			}
		}
	})
}

// installOrder puts namespaces and kinds before what needs them, as kubectl does.
func installOrder(objects []object) []object {
	rank := map[string]int{"Namespace": -2, "CustomResourceDefinition": -1}
	slices.SortStableFunc(objects, func(a, b object) int { return rank[a.GetKind()] - rank[b.GetKind()] })
	return objects
}

// TestKustomizations: each builds, and the API server takes what it makes.
func TestKustomizations(t *testing.T) {
	install(t)
	for folder := range kustomizations(t) {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			objects := kustomize(t, folder)
			byName(t, objects)
			for _, o := range objects {
				if o.GetLabels()["app.kubernetes.io/part-of"] != "stowage" {
					t.Errorf("%s has no label app.kubernetes.io/part-of", name(o))
				}
				if foreign(o) {
					continue
				}
				if err := apply(t.Context(), admin, o, metav1.DryRunAll); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestImages: the images are those that "make images" makes.
func TestImages(t *testing.T) {
	t.Parallel()
	for folder := range kustomizations(t) {
		for _, o := range kustomize(t, folder) {
			for _, image := range imagesOf(o.Object) {
				command, ok := strings.CutPrefix(image, "stowage.dev/stowage-")
				command, tagged := strings.CutSuffix(command, ":dev")
				if _, err := os.Stat(filepath.Join(top, "cmd", command)); !ok || !tagged || err != nil {
					t.Errorf("%s: image %s: %v", name(o), image, err)
				}
			}
		}
	}
}

// imagesOf finds the texts of all fields named image.
func imagesOf(value any) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			if image, ok := v.(string); ok && key == "image" {
				found = append(found, image)
			}
			found = append(found, imagesOf(v)...)
		}
	case []any:
		for _, v := range value {
			found = append(found, imagesOf(v)...)
		}
	}
	return found
}
