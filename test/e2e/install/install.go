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

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
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
	// WithoutPolicies replace Folders where HasPolicies is false; empty: Folders have no such policies.
	WithoutPolicies []string
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
	// Patches are strategic merge patches of objects of the manifests.
	Patches []string
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
	// Annotations of the StorageClass.
	Annotations map[string]string
}

// Options are those of a cluster on which Config is installed and rolled out. For frame.NewSite;
// frame.NewOn takes the function's result.
func Options(c Config) func() (frame.Options, error) {
	return func() (frame.Options, error) {
		archives, err := Archives(c.Parts)
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

// top is the repository, from where this package is used: package e2e, and the benchmark of staging.
const top = "../.."

var folder = flag.String("images", filepath.Join(top, "bin", "images"), "folder of the images that \"make images\" makes")

// Archives are the images of parts, which "make images" has made. No parts: as in Config.
func Archives(parts []string) ([]string, error) {
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

func (c Config) folders() []string {
	if len(c.Folders) == 0 {
		return []string{"overlays/default"}
	}
	return c.Folders
}

// write writes the kustomization, an administrator's of unchanged manifests, into a folder.
func (c Config) write(dir string) error {
	manifests, err := filepath.Abs(filepath.Join(top, "manifests"))
	if err != nil {
		return err
	}
	k := kustomization{files: map[string][]byte{}}
	var folders []string
	tag, err := ImageTag("stowage-scheduler", "dev")
	if err != nil {
		return err
	}
	for _, folder := range c.folders() {
		// kustomize takes no absolute paths.
		relative, err := filepath.Rel(dir, filepath.Join(manifests, folder))
		if err != nil {
			return err
		}
		folders = append(folders, relative)
	}
	// It takes no files outside its folder either.
	for _, file := range c.Files {
		if k.files[strings.ReplaceAll(file, "/", "-")], err = os.ReadFile(filepath.Join(manifests, file)); err != nil {
			return err
		}
	}
	for _, patch := range c.Patches {
		k.patches = append(k.patches, map[string]string{"patch": patch})
	}
	c.addClasses(&k)
	resources := slices.AppendSeq(folders, maps.Keys(k.files))
	var generators []map[string]any
	for name, config := range c.Configs {
		namespace := "kube-system"
		if name == Controller {
			namespace = Namespace
		}
		k.files[name+".yaml"] = []byte(config)
		generators = append(generators, map[string]any{
			"name": name, "namespace": namespace, "behavior": "replace", "files": []string{"config.yaml=" + name + ".yaml"},
		})
	}
	k.files["kustomization.yaml"] = k.encode(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"images":    []map[string]string{{"name": "stowage.dev/stowage-scheduler", "newTag": tag}},
		"resources": resources, "patches": k.patches, "configMapGenerator": generators,
	})
	for name, data := range k.files {
		k.err = errors.Join(k.err, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return k.err
}

// kustomization collects the files of a kustomization by name, its patches, and errors.
type kustomization struct {
	files   map[string][]byte
	patches []map[string]string
	err     error
}

func (k *kustomization) encode(value any) []byte {
	data, err := yaml.Marshal(value)
	k.err = errors.Join(k.err, err)
	return data
}

// patch adds keys to a ConfigMap of the manifests.
func (k *kustomization) patch(name string, data map[string]string) {
	k.patches = append(k.patches, map[string]string{"patch": string(k.encode(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]string{"name": name, "namespace": Namespace},
	}))})
}

// addClasses adds the classes, and the provisioner's settings of them.
func (c Config) addClasses(k *kustomization) {
	keys := maps.Clone(c.Provisioner)
	if len(c.Classes) > 0 {
		settings := map[string]any{}
		for _, class := range c.Classes {
			settings[class.Name] = class.Settings
			k.files["class-"+class.Name+".yaml"] = k.encode(class.storageClass())
		}
		k.patch("stowage-provisioner-nodes", map[string]string{"classes": strings.Join(slices.Sorted(maps.Keys(settings)), ",")})
		if keys == nil {
			keys = map[string]string{}
		}
		keys["storageClassMap"] = string(k.encode(settings))
	}
	if len(keys) > 0 {
		k.patch("stowage-provisioner", keys)
	}
}

func (c Class) storageClass() *storagev1.StorageClass {
	class := builders.MakeClass(c.Name).Obj()
	class.Annotations = c.Annotations
	return class
}

// Apply adds the nodes of a configuration, applies its manifests, and returns when they are
// rolled out.
func Apply(ctx context.Context, on *realnode.Cluster, c Config) error {
	if _, err := on.AddNodes(ctx, c.Nodes...); err != nil {
		return err
	}
	if c.Before != nil {
		if err := c.Before(ctx, on); err != nil {
			return err
		}
	}
	for _, node := range c.Nodes {
		if err := MakeFolders(ctx, on.Node(node.Name), c.Classes); err != nil {
			return err
		}
	}
	if len(c.WithoutPolicies) > 0 {
		served, err := HasPolicies(on.Client().Discovery())
		if err != nil {
			return err
		}
		if !served {
			c.Folders = c.WithoutPolicies
		}
	}
	dir, err := os.MkdirTemp(on.Folder(), "install-")
	if err != nil {
		return err
	}
	if err := c.write(dir); err != nil {
		return fmt.Errorf("write a kustomization: %w", err)
	}
	if _, err := on.Kubectl(ctx, "apply", "--server-side", "-k", dir); err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(c.folders(), " and "), err)
	}
	return RolledOut(ctx, on)
}

// HasPolicies reports whether the API server serves the version of MutatingAdmissionPolicy that the
// manifests have. Kubernetes before 1.36 has at most its beta.
func HasPolicies(client discovery.ServerResourcesInterface) (bool, error) {
	served, err := client.ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("list the resources that the API server serves: %w", err)
	}
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == "MutatingAdmissionPolicy" }), nil
}

// MakeFolders makes the folders of classes on a node. A node that is added later needs them
// before its provisioner is ready.
func MakeFolders(ctx context.Context, n *realnode.Node, classes []Class) error {
	args := []string{"mkdir", "-p", "/mnt/disks"}
	for _, class := range classes {
		if dir, ok := class.Settings["hostDir"].(string); ok {
			args = append(args, dir)
		}
	}
	_, err := n.Run(ctx, nil, args...)
	return err
}

// RolledOut waits until all installed pods are ready, except those that never
// are: of the extender only the leader is.
func RolledOut(ctx context.Context, on *realnode.Cluster) error {
	out, err := on.Kubectl(ctx, "get", "deployments,daemonsets", "--all-namespaces", "--selector=app.kubernetes.io/part-of=stowage",
		`--output=jsonpath={range .items[*]}{.metadata.namespace} {.kind}/{.metadata.name}{"\n"}{end}`)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for line := range strings.Lines(out) {
		namespace, workload, _ := strings.Cut(strings.TrimSpace(line), " ")
		args := []string{"rollout", "status", "--namespace=" + namespace, workload}
		if workload == "Deployment/stowage-extender" {
			args = []string{"wait", "--timeout=-1s", "--for=jsonpath={.status.readyReplicas}", "--namespace=" + namespace, workload}
		}
		group.Go(func() error {
			if _, err := on.Kubectl(ctx, args...); err != nil {
				return errors.Join(fmt.Errorf("roll out %s: %w", workload, err), describe(on, namespace))
			}
			return nil
		})
	}
	return group.Wait()
}

// describe returns the state of the pods of a namespace.
func describe(on *realnode.Cluster, namespace string) error {
	ctx, cancel := context.WithTimeout(context.Background(), tellTimeout)
	defer cancel()
	out, err := on.Kubectl(ctx, "describe", "pods", "--namespace="+namespace)
	if err != nil {
		return err
	}
	return errors.New(out)
}
