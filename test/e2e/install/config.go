// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install installs Stowage on a cluster of real nodes, as its users do: nodes have the
// images that "make images" makes, and kubectl applies a kustomization that names a folder of
// manifests and what this cluster wants else. All parts run in pods, each as its own service
// account.
//
//	var site = frame.NewSite(install.Options(install.Config{
//		Nodes:   []realnode.NodeSpec{frame.Node("one"), frame.Node("two")},
//		Classes: []install.Class{{Name: "fast", Settings: map[string]any{"hostDir": "/mnt/disks/fast"}}},
//	}))
//
//	func TestVolumes(t *testing.T) {
//		e := site.New(t)
//		...
//	}
//
// Nothing is pulled: the tag of the images is not "latest", and every node has them.
package install

import (
	"context"
	"errors"
	"flag"
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
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/e2e/frame"
)

// Namespace is where provisioners and controller are.
const Namespace = "stowage-system"

// Names of the ConfigMaps that components read their configuration from.
const (
	Scheduler  = "stowage-scheduler-config"
	Controller = "stowage-controller-config"
	Extender   = "stowage-extender-config"
)

// Config is what to install. The zero value is manifests/overlays/default, without disks.
type Config struct {
	// Folders of manifests, such as "extender/full"; empty: "overlays/default".
	Folders []string
	// Files of manifests that are in no kustomization, such as "controller/cleaning-jobs.yaml".
	Files []string
	// Parts whose images nodes have; empty: provisioner, controller and scheduler.
	Parts []string
	// Classes replace those that the manifests configure.
	Classes []Class
	// Provisioner has further keys of the provisioner's ConfigMap.
	Provisioner map[string]string
	// Configs are files config.yaml that replace those of the manifests, by ConfigMap.
	Configs map[string]string
	// Nodes are added before anything is applied; the site's tests share them.
	Nodes []realnode.NodeSpec
	// Before is called when the nodes run and nothing is installed, if it is set.
	Before func(context.Context, *realnode.Cluster) error
	// Cluster changes the cluster's configuration, if it is set.
	Cluster func(*realnode.Config)
}

// Class is a class of local volumes: a StorageClass, an entry of storageClassMap and one of
// those that provisioners may publish.
type Class struct {
	Name string
	// Settings are the class's keys in storageClassMap. hostDir must be below /mnt/disks,
	// which provisioners mount; it is made on every node.
	Settings map[string]any
	// Retain is the reclaim policy; Delete otherwise.
	Retain bool
	// Annotations of the StorageClass.
	Annotations map[string]string
}

// Options are those of a cluster on which Config is installed and rolled out. For frame.NewSite;
// frame.NewOn takes the function's result.
func Options(c Config) func() (frame.Options, error) {
	return func() (frame.Options, error) {
		archives, err := archives(c.Parts)
		if err != nil {
			return frame.Options{}, err
		}
		return frame.Options{
			Images: archives,
			Config: c.Cluster,
			Begin:  func(ctx context.Context, on *realnode.Cluster) error { return Apply(ctx, on, c) },
		}, nil
	}
}

// top is the repository, from package e2e, whose tests are all that use this package.
const top = "../.."

var folder = flag.String("images", filepath.Join(top, "bin", "images"), "folder of the images that \"make images\" makes")

// archives are the images of parts, which "make images" has made.
func archives(parts []string) ([]string, error) {
	if len(parts) == 0 {
		parts = []string{"provisioner", "controller", "scheduler"}
	}
	var found []string
	for _, part := range parts {
		file, err := filepath.Abs(filepath.Join(*folder, "stowage-"+part+".tar"))
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("find the image of the %s: %w; run make images, or name their folder by -images", part, err)
		}
		found = append(found, file)
	}
	return found, nil
}

// ImageTag is the tag of an image, such as stowage-scheduler, that "make images TAG=tag" makes: that
// of the scheduler names the minor of Kubernetes, $STOWAGE_KUBE or else the newest.
func ImageTag(image, tag string) (string, error) {
	if image != "stowage-scheduler" {
		return tag, nil
	}
	minor := os.Getenv("STOWAGE_KUBE")
	if minor == "" {
		modules, err := filepath.Glob(filepath.Join(top, "pkg", "kubecompat", "*", "go.mod"))
		if err != nil {
			return "", err
		}
		if len(modules) == 0 {
			return "", errors.New("pkg/kubecompat has no module")
		}
		minor = filepath.Base(filepath.Dir(slices.Max(modules)))
	}
	return tag + "-kube" + minor, nil
}

// tellTimeout bounds requests after a failure.
var tellTimeout = deadline.Wait()

// kustomization is an administrator's, of unchanged manifests.
type kustomization struct {
	APIVersion         string      `json:"apiVersion"`
	Kind               string      `json:"kind"`
	Resources          []string    `json:"resources"`
	Images             []image     `json:"images"`
	Patches            []patch     `json:"patches,omitempty"`
	ConfigMapGenerator []generator `json:"configMapGenerator,omitempty"`
}

type image struct {
	Name   string `json:"name"`
	NewTag string `json:"newTag"`
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
	tag, err := ImageTag("stowage-scheduler", "dev")
	if err != nil {
		return err
	}
	k := kustomization{
		APIVersion: "kustomize.config.k8s.io/v1beta1", Kind: "Kustomization",
		Images: []image{{Name: "stowage.dev/stowage-scheduler", NewTag: tag}},
	}
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
