// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioners runs stowage-provisioner for nodes of a test cluster:
// as a process of this machine, with the permissions and policies of the manifests, and
// a token as kubelet gets it for a pod.
package provisioners

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
)

// Namespace of the provisioners and their parameters.
const Namespace = "stowage-system"

const (
	account = "stowage-provisioner"
	params  = "stowage-provisioner-nodes"
)

// manifests are those that an administrator applies, except the provisioner's DaemonSet.
var manifests = []string{
	"crd/stowage.dev_localdiskreports.yaml", "crd/stowage.dev_localdisks.yaml", "crd/stowage.dev_localdisktombstones.yaml",
	"provisioner/namespace.yaml", "provisioner/rbac.yaml", "provisioner/startup-taint/rbac.yaml", "provisioner/nodes.yaml",
	"provisioner/policy-volumes.yaml", "provisioner/policy-placement.yaml", "provisioner/policy-reports.yaml", "provisioner/policy-nodes.yaml",
	"provisioner/policy-heartbeats.yaml", "provisioner/policy-disks.yaml",
}

// Build builds the provisioner, reports its progress, and returns the binary's path.
func Build(ctx context.Context, progress io.Writer) (string, error) {
	return cluster.BuildCommand(ctx, cluster.BuildOptions{Progress: progress}, "stowage.dev/stowage/cmd/provisioner")
}

// Apply applies the provisioner's manifests, and waits until its policies are in force. Their folder
// is relative to this source file: tests run in the folder of their package.
func Apply(ctx context.Context, c *cluster.Cluster) error {
	_, source, _, _ := runtime.Caller(0)
	for _, file := range manifests {
		if err := c.CreateFiles(ctx, filepath.Join(filepath.Dir(source), "../../manifests", file)); err != nil {
			return err
		}
	}
	return waitPolicies(ctx, c)
}

// AllowClass lets provisioners create volumes of a class. All provisioners share the ConfigMap,
// so classes are only added.
func AllowClass(ctx context.Context, client kubernetes.Interface, class string) error {
	for {
		configMap, err := client.CoreV1().ConfigMaps(Namespace).Get(ctx, params, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get ConfigMap %s: %w", params, err)
		}
		patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"data":{"classes":%q}}`, configMap.ResourceVersion, configMap.Data["classes"]+","+class)
		_, err = client.CoreV1().ConfigMaps(Namespace).Patch(ctx, params, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("patch ConfigMap %s: %w", params, err)
		}
	}
}

// Process is the provisioner of one node.
type Process struct {
	Cluster *cluster.Cluster
	// Binary is what Build returned.
	Binary string
	// Node is the node's name. The Node object exists.
	Node string
	// Folder has the provisioner's files: "config" the ConfigMap, "state" its records, "kubelet" a
	// kubelet's folder, "fstab" and "kubeconfig". MakeFolders makes the folders, Login the
	// kubeconfig; fstab is optional.
	Folder string
}

// MakeFolders makes the folders in Folder, which exists.
func (p Process) MakeFolders() error {
	for _, sub := range []string{"config", "state", "kubelet/pods"} {
		if err := os.MkdirAll(p.path(sub), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (p Process) path(elements ...string) string {
	return filepath.Join(append([]string{p.Folder}, elements...)...)
}

// Configure writes the provisioner's configuration: keys of the ConfigMap, with strings or
// objects as values.
func (p Process) Configure(data map[string]any) error {
	for key, value := range data {
		text, ok := value.(string)
		if !ok {
			encoded, err := yaml.Marshal(value)
			if err != nil {
				return fmt.Errorf("encode %s of the configuration: %w", key, err)
			}
			text = string(encoded)
		}
		if err := p.WriteConfig(key, text); err != nil {
			return err
		}
	}
	return nil
}

// WriteConfig writes a key of the configuration as it is given, at once.
func (p Process) WriteConfig(key, text string) error {
	next := p.path("config-" + key)
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, p.path("config", key))
}

// Args are the provisioner's arguments. The last of repeated flags applies.
func (p Process) Args() []string {
	return []string{
		"--kubeconfig=" + p.path("kubeconfig"), "--config=" + p.path("config"), "--state-dir=" + p.path("state"),
		"--kubelet-dir=" + p.path("kubelet"), "--host-fstab=" + p.path("fstab"), "--listen-address=127.0.0.1:0",
		"--recheck-period=500ms", "--v=4",
	}
}

// Start runs the provisioner, with more arguments. It ends with the cluster.
func (p Process) Start(args ...string) (*cluster.Process, error) {
	return p.Cluster.StartCommand(p.Node, p.Binary, append(p.Args(), args...), []string{"MY_NODE_NAME=" + p.Node})
}

// Login gets the provisioner the token that kubelet would give it, which names its node, and
// returns the name of the pod that it is bound to. The token ends with the pod.
func (p Process) Login(ctx context.Context) (pod string, err error) {
	bound, err := p.Cluster.Client().CoreV1().Pods(Namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-"},
		Spec: corev1.PodSpec{
			NodeName:           p.Node,
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "provisioner", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create the provisioner's pod on %s: %w", p.Node, err)
	}
	return bound.Name, p.Cluster.WritePodKubeconfig(ctx, bound, p.path("kubeconfig"))
}

// probe is the name of a node, and of a class, that do not exist.
const probe = "policy-probe"

// waitPolicies returns when the API server limits provisioners to the volumes and reports of their
// own node, and to the classes that they may publish. It applies policies some time after
// they are created, and sends no event when it does.
func waitPolicies(ctx context.Context, c *cluster.Cluster) error {
	config := rest.CopyConfig(c.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + Namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + Namespace, "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {probe}},
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	reports, err := diskreports.NewClient(config)
	if err != nil {
		return err
	}
	ofNoClass, problem := localpv.Volume(Request(probe, probe, probe, "fs:"+probe+":/"))
	if problem != nil {
		return problem
	}
	unlabelled := ofNoClass.DeepCopy()
	delete(unlabelled.Labels, wellknown.NodeLabel)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	another := &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: "another"}, Spec: stowage.LocalDiskReportSpec{NodeName: "another", Page: 1},
	}
	for policy, ask := range map[string]func(context.Context) error{
		"volumes":   creation(client.CoreV1().PersistentVolumes().Create, unlabelled, dryRun),
		"placement": creation(client.CoreV1().PersistentVolumes().Create, ofNoClass, dryRun),
		"reports":   creation(reports.Create, another, dryRun),
	} {
		var last error
		refusal := "ValidatingAdmissionPolicy 'stowage-provisioner-" + policy + "'"
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, deadline.Wait(), true, func(ctx context.Context) (bool, error) { //nolint:forbidigo // no object shows it
			last = ask(ctx)
			return last != nil && strings.Contains(last.Error(), refusal), nil
		})
		if err != nil {
			return fmt.Errorf("wait until policy %s is in force: %w", policy, errors.Join(err, last))
		}
	}
	return nil
}

// creation is a request to create an object, which a policy forbids.
func creation[T any](create func(context.Context, T, metav1.CreateOptions) (T, error), object T, o metav1.CreateOptions) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := create(ctx, object, o)
		return err
	}
}

// Request is a provisioner's request for the volume of a mounted disk of 100 GiB. No disk is needed.
func Request(node, class, name, identity string) localpv.Request {
	return localpv.Request{
		Node:  localpv.Node{Name: node, Hostname: node},
		Class: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}}, Generation: localpv.FirstGeneration,
		Disk: disk.Fact{
			Key: disk.Key{Class: class, Name: name}, HostPath: "/mnt/" + class + "/" + name, Kind: disk.Mount,
			Identity: disk.Identity(identity), Bytes: 100 << 30,
		},
		Offer: localpv.Offer{Mode: disk.Filesystem},
	}
}
