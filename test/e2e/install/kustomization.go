// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package install

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/deadline"
)

// tellTimeout bounds requests after a failure.
var tellTimeout = deadline.Wait()

// kustomization is an administrator's, of unchanged manifests.
type kustomization struct {
	APIVersion         string      `json:"apiVersion"`
	Kind               string      `json:"kind"`
	Resources          []string    `json:"resources"`
	Patches            []patch     `json:"patches,omitempty"`
	ConfigMapGenerator []generator `json:"configMapGenerator,omitempty"`
}

type patch struct {
	Path string `json:"path"`
}

type generator struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Behavior  string   `json:"behavior"`
	Files     []string `json:"files"`
}

func (c Config) folders() []string {
	if len(c.Folders) == 0 {
		return []string{"overlays/default"}
	}
	return c.Folders
}

// write writes the kustomization into a folder.
func (c Config) write(dir string) error {
	manifests, err := filepath.Abs(filepath.Join(top, "manifests"))
	if err != nil {
		return err
	}
	k := kustomization{APIVersion: "kustomize.config.k8s.io/v1beta1", Kind: "Kustomization"}
	for _, folder := range c.folders() {
		// kustomize takes no absolute paths.
		relative, err := filepath.Rel(dir, filepath.Join(manifests, folder))
		if err != nil {
			return err
		}
		k.Resources = append(k.Resources, relative)
	}
	// It takes no files outside its folder either.
	for _, file := range c.Files {
		data, err := os.ReadFile(filepath.Join(manifests, file))
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(file, "/", "-")
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
		k.Resources = append(k.Resources, name)
	}
	if err := c.writeClasses(dir, &k); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Configs)) {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(c.Configs[name]), 0o600); err != nil {
			return err
		}
		namespace := "kube-system"
		if name == Controller {
			namespace = Namespace
		}
		k.ConfigMapGenerator = append(k.ConfigMapGenerator,
			generator{Name: name, Namespace: namespace, Behavior: "replace", Files: []string{"config.yaml=" + name + ".yaml"}})
	}
	return writeYAML(dir, "kustomization.yaml", k)
}

// writeClasses writes the classes, and the provisioner's settings of them.
func (c Config) writeClasses(dir string, k *kustomization) error {
	keys := maps.Clone(c.Provisioner)
	if keys == nil {
		keys = map[string]string{}
	}
	if len(c.Classes) > 0 {
		settings := map[string]any{}
		for _, class := range c.Classes {
			settings[class.Name] = class.Settings
			file := "class-" + class.Name + ".yaml"
			if err := writeYAML(dir, file, class.storageClass()); err != nil {
				return err
			}
			k.Resources = append(k.Resources, file)
		}
		data, err := yaml.Marshal(settings)
		if err != nil {
			return err
		}
		keys["storageClassMap"] = string(data)
		names := strings.Join(slices.Sorted(maps.Keys(settings)), ",")
		if err := c.patch(dir, k, "stowage-provisioner-nodes", map[string]string{"classes": names}); err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return c.patch(dir, k, "stowage-provisioner", keys)
}

// patch adds keys to a ConfigMap of the manifests.
func (c Config) patch(dir string, k *kustomization, name string, data map[string]string) error {
	file := fmt.Sprintf("patch-%s.yaml", name)
	k.Patches = append(k.Patches, patch{Path: file})
	return writeYAML(dir, file, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]string{"name": name, "namespace": Namespace},
		"data":     data,
	})
}

func (c Class) storageClass() *storagev1.StorageClass {
	class := builders.MakeClass(c.Name).Obj()
	class.Annotations = c.Annotations
	if c.Retain {
		class.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain)
	}
	return class
}

func writeYAML(dir, file string, value any) error {
	data, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), data, 0o600)
}
