// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/test/await"
)

// NodeSet describes nodes that are alike.
type NodeSet struct {
	// Prefix of the names, which go PREFIX-0, PREFIX-1 and so on; empty:
	// "node". Names must differ between the sets of one cluster.
	Prefix string
	// Count of nodes.
	Count int
	// Zones are given to the nodes in turn, as topology.kubernetes.io/zone;
	// none: no such label.
	Zones []string
	// Labels for each node, in addition to its hostname label.
	Labels map[string]string
}

// Nodes makes the node objects of a set, with 32 CPUs, 256Gi of memory and a limit of 110 pods
// each. They may be changed before AddNodes.
func (s NodeSet) Nodes() []*corev1.Node {
	prefix := s.Prefix
	if prefix == "" {
		prefix = "node"
	}
	nodes := make([]*corev1.Node, s.Count)
	for i := range nodes {
		name := fmt.Sprintf("%s-%d", prefix, i)
		labels := map[string]string{
			corev1.LabelHostname:   name,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: "amd64",
		}
		if len(s.Zones) > 0 {
			labels[corev1.LabelTopologyZone] = s.Zones[i%len(s.Zones)]
		}
		maps.Copy(labels, s.Labels)
		resources := corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("32"),
			corev1.ResourceMemory: resource.MustParse("256Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}
		nodes[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Status:     corev1.NodeStatus{Allocatable: resources, Capacity: maps.Clone(resources)},
		}
	}
	return nodes
}

// AddNodes creates nodes and waits until all are Ready and schedulable. Without kwok no
// component reports them Ready, so they are created Ready.
// The objects passed are not changed.
func (c *Cluster) AddNodes(ctx context.Context, nodes ...*corev1.Node) error {
	kwok := c.kwok.Process()
	if !c.config.NoKwok && !c.kwok.Running() {
		return errors.New("add nodes: kwok, which makes nodes Ready, is not running: start it first")
	}
	if err := await.Each(ctx, len(nodes), func(ctx context.Context, i int) error {
		n := nodes[i].DeepCopy()
		if c.config.NoKwok {
			setReady(n)
		}
		if _, err := c.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", n.Name, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if c.config.NoKwok {
		return nil
	}
	return c.waitNodes(ctx, kwok, nodes)
}

// waitNodes waits until pods may be placed on all nodes, or kwok ends.
func (c *Cluster) waitNodes(ctx context.Context, kwok *Process, nodes []*corev1.Node) error {
	ctx, cancel := kwok.WhileRunning(ctx)
	defer cancel()
	missing := sets.New[string]()
	for _, n := range nodes {
		missing.Insert(n.Name)
	}
	_, err := await.Object(ctx, c.client.CoreV1().Nodes(), "", func(n *corev1.Node) bool {
		if Schedulable(n) {
			missing.Delete(n.Name)
		}
		return missing.Len() == 0
	})
	if err != nil {
		return fmt.Errorf("wait for nodes to become Ready: %d of %d did not, such as %s: %w", missing.Len(), len(nodes), slices.Min(missing.UnsortedList()), err)
	}
	return nil
}

// Schedulable reports whether the readiness of a node allows pods on it.
func Schedulable(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// setReady marks a node Ready unless it has a Ready condition.
func setReady(n *corev1.Node) {
	if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }) {
		return
	}
	now := metav1.Now()
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated",
		LastHeartbeatTime: now, LastTransitionTime: now,
	})
}

// defaultServiceAccount is the service account of pods that do not specify one.
const defaultServiceAccount = "default"

// NewNamespace makes a namespace named after prefix with a suffix that makes it
// unique, waits until pods can be created in it and returns its name.
func (c *Cluster) NewNamespace(ctx context.Context, prefix string) (string, error) {
	ns, err := c.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a namespace for %q: %w", prefix, err)
	}
	if !c.config.hasServiceAccounts() {
		return ns.Name, nil
	}
	return ns.Name, c.waitServiceAccount(ctx, ns.Name)
}

// waitServiceAccount waits for a namespace's default service account, without which no pod
// is admitted.
func (c *Cluster) waitServiceAccount(ctx context.Context, namespace string) error {
	if m := c.controllerManager.Process(); m != nil {
		var cancel func()
		ctx, cancel = m.WhileRunning(ctx)
		defer cancel()
	}
	accounts := c.client.CoreV1().ServiceAccounts(namespace)
	if _, err := await.Object(ctx, accounts, defaultServiceAccount, func(*corev1.ServiceAccount) bool { return true }); err != nil {
		return fmt.Errorf("wait for the default service account of namespace %q: %w", namespace, err)
	}
	return nil
}

// CreateFiles creates, as an administrator, the objects that YAML files
// describe, in order. What exists already is left as it is. Kinds must have
// regular plurals.
func (c *Cluster) CreateFiles(ctx context.Context, paths ...string) error {
	client, err := dynamic.NewForConfigAndClient(c.RESTConfig(), c.http)
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		objects, err := Objects(data)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		for _, object := range objects {
			_, err = ResourceOf(client, object).Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create %s %s of %s: %w", object.GetKind(), object.GetName(), path, err)
			}
		}
	}
	return nil
}

// Objects reads the objects that YAML documents describe; a duplicate key is an error.
func Objects(data []byte) ([]*unstructured.Unstructured, error) {
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var objects []*unstructured.Unstructured
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if len(object.Object) > 0 { // more than comments
			objects = append(objects, object)
		}
	}
}

// ResourceOf returns the client of an object's resource. Its kind must have a regular plural.
func ResourceOf(client dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	if namespace := object.GetNamespace(); namespace != "" {
		return client.Resource(plural).Namespace(namespace)
	}
	return client.Resource(plural)
}

// Apply applies an object as kubectl apply --server-side does. Unknown fields are errors.
func Apply(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured, dryRun ...string) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = ResourceOf(client, object).Patch(ctx, object.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		DryRun: dryRun, FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict, Force: new(true),
	})
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// Misbound returns an error for each claim whose volume another claim names too, and for each
// bound claim that its volume does not name.
func Misbound(claims []corev1.PersistentVolumeClaim, volumes []corev1.PersistentVolume) []error {
	owner := map[string]types.UID{}
	for _, volume := range volumes {
		if ref := volume.Spec.ClaimRef; ref != nil {
			owner[volume.Name] = ref.UID
		}
	}
	var errs []error
	claimOf := map[string]string{}
	for _, claim := range claims {
		volume := claim.Spec.VolumeName
		if volume == "" {
			continue
		}
		if other, taken := claimOf[volume]; taken {
			errs = append(errs, fmt.Errorf("volume %s is bound to claims %s and %s", volume, other, claim.Name))
		}
		claimOf[volume] = claim.Name
		if claim.Status.Phase == corev1.ClaimBound && owner[volume] != claim.UID {
			errs = append(errs, fmt.Errorf("claim %s (%s) is bound to volume %s, which names the claim %q", claim.Name, claim.UID, volume, owner[volume]))
		}
	}
	return errs
}
