// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/cluster/realnode/layout"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// top is where the repository is, from here, and manifests where our manifests are.
const (
	top       = "../../"
	manifests = top + "manifests/"
)

// parts are the components of the default, by the name of their image.
var parts = []string{"stowage-provisioner", "stowage-controller", "stowage-scheduler"}

// empty is a cluster without Stowage, of a node with three disks. The node has our
// images with tag dev, and with dev2 too, which is the next version.
type empty struct {
	*frame.Env
	node *realnode.Node
}

func newEmpty(t *testing.T) *empty {
	t.Helper()
	o, err := install.Options(install.Config{})()
	if err != nil {
		t.Fatal(err)
	}
	s := &empty{}
	o.Begin = func(ctx context.Context, c *realnode.Cluster) error {
		if err := s.addNode(ctx, c); err != nil {
			return err
		}
		for _, part := range parts {
			image := "stowage.dev/" + part
			first, err := install.ImageTag(part, "dev")
			if err != nil {
				return err
			}
			next, err := install.ImageTag(part, "dev2")
			if err != nil {
				return err
			}
			if _, err := s.node.Run(ctx, nil, "ctr", "--address", layout.Containerd, "--namespace", "k8s.io", "images", "tag",
				image+":"+first, image+":"+next); err != nil {
				return err
			}
		}
		return nil
	}
	s.Env = frame.NewOn(t, o)
	return s
}

// addNode adds the node.
func (s *empty) addNode(ctx context.Context, c *realnode.Cluster) error {
	nodes, err := c.AddNodes(ctx, nodeOfThree())
	s.node = nodes[0]
	return err
}

// nodeOfThree is a node with three disks in the folder of the default configuration.
func nodeOfThree() realnode.NodeSpec {
	spec := frame.Node("one")
	for _, path := range []string{"/mnt/disks/1", "/mnt/disks/2", "/mnt/disks/3"} {
		spec.Disks = append(spec.Disks, realnode.Disk{Kind: realnode.Ext4, Path: path, Size: 16 << 20})
	}
	return spec
}

// kubectl runs kubectl without a namespace and returns its output.
func (s *empty) kubectl(args ...string) string {
	s.T.Helper()
	out, err := s.Cluster.Kubectl(s.Context, args...)
	s.Do(err)
	return out
}

// buildHelm returns the path of Helm; if necessary it builds it, which takes minutes: call it
// before the time of a cluster's test begins.
func buildHelm(t *testing.T) string {
	t.Helper()
	build := exec.CommandContext(t.Context(), top+"hack/tools/install.sh", "helm.sh/helm/v4/cmd/helm")
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// userEnv is the environment of the cluster's administrator, with no configuration of this
// machine's user.
func userEnv(s *empty) []string {
	home := s.T.TempDir()
	return append(os.Environ(), "KUBECONFIG="+s.Cluster.Kubeconfig(), "DOCKER_CONFIG="+home,
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
}

// newHelm returns a function that runs Helm on the cluster and returns its output.
func newHelm(s *empty, helm string) func(args ...string) string {
	s.T.Helper()
	env := userEnv(s)
	return func(args ...string) string {
		s.T.Helper()
		cmd := exec.CommandContext(s.Context, helm, append(args, "--namespace", "stowage-system")...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.T.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// overlay is an overlay of the default with images of a tag. The manifests themselves name the
// scheduler of the newest minor of Kubernetes.
func (s *empty) overlay(tag string) string {
	s.T.Helper()
	dir := filepath.Join(s.Cluster.Folder(), "overlay-"+tag)
	s.Do(os.Mkdir(dir, 0o755))
	base, err := filepath.Abs(manifests + "overlays/default")
	s.Do(err)
	base, err = filepath.Rel(dir, base)
	s.Do(err)
	var images []map[string]string
	for _, part := range parts {
		newTag, err := install.ImageTag(part, tag)
		s.Do(err)
		images = append(images, map[string]string{"name": "stowage.dev/" + part, "newTag": newTag})
	}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{base}, "images": images,
	})
	s.Do(err)
	s.Do(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), data, 0o600))
	return dir
}

// ours are all objects that are Stowage's, or have labels, annotations or finalizers of it, but
// for volumes.
func (s *empty) ours() []unstructured.Unstructured {
	s.T.Helper()
	// The API server creates an APIService of each kind's group, and deletes it some time after.
	skip := []string{"events", "events.events.k8s.io", "persistentvolumes", "apiservices.apiregistration.k8s.io"}
	var kinds []string
	for kind := range strings.FieldsSeq(s.kubectl("api-resources", "--verbs=list", "--output=name")) {
		if !slices.Contains(skip, kind) {
			kinds = append(kinds, kind)
		}
	}
	var list unstructured.UnstructuredList
	s.Do(list.UnmarshalJSON([]byte(s.kubectl("get", strings.Join(kinds, ","), "--all-namespaces", "--output=json"))))
	var found []unstructured.Unstructured
	for _, o := range list.Items {
		if o.GetNamespace() == "stowage-system" && (o.GetName() == "default" || o.GetName() == "kube-root-ca.crt") {
			continue // every namespace has them
		}
		o.SetManagedFields(nil)
		meta, err := json.Marshal(o.Object["metadata"])
		s.Do(err)
		if strings.Contains(string(meta), "stowage") || strings.Contains(o.GetKind(), "LocalDisk") {
			found = append(found, o)
		}
	}
	return found
}

// waitDeleted waits until an object that is being deleted does not exist.
func (s *empty) waitDeleted(o unstructured.Unstructured) {
	s.T.Helper()
	kind := o.GetKind()
	if gvk := o.GroupVersionKind(); gvk.Group != "" {
		kind = strings.Join([]string{gvk.Kind, gvk.Version, gvk.Group}, ".")
	}
	s.kubectl("wait", "--for=delete", kind+"/"+o.GetName(), "--namespace="+o.GetNamespace(), "--timeout=5m")
}
