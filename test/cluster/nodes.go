// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// createParallelism is how many objects are created at the same time.
const createParallelism = 32

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

// Nodes makes the node objects of a set, with 32 CPUs, 256Gi of memory and room for 110 pods
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
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(createParallelism)
	for _, n := range nodes {
		n = n.DeepCopy()
		if c.config.NoKwok {
			setReady(n)
		}
		group.Go(func() error {
			if _, err := c.client.CoreV1().Nodes().Create(creating, n, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create node %s: %w", n.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
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
	lw := cache.NewListWatchFromClient(c.client.CoreV1().RESTClient(), "nodes", corev1.NamespaceAll, fields.Everything())
	err := Until(ctx, lw, &corev1.Node{}, func(o runtime.Object) bool {
		if n, ok := o.(*corev1.Node); ok && Schedulable(n) {
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
