// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// nodes are the cluster's nodes, with what is needed of them here.
type nodes struct {
	byName map[string]node
	// byHost has the names of the nodes with a hostname label; more than one by mistake.
	byHost map[string][]string
}

type node struct {
	uid   types.UID
	ready bool
}

func listNodes(ctx context.Context, client kubernetes.Interface) (nodes, error) {
	found := nodes{byName: map[string]node{}, byHost: map[string][]string{}}
	err := each(ctx, client.CoreV1().Nodes().List, metav1.ListOptions{}, found.add)
	if err != nil {
		return nodes{}, fmt.Errorf("list nodes: %w", err)
	}
	return found, nil
}

func (n *nodes) add(object *corev1.Node) {
	seen := node{uid: object.UID}
	for _, c := range object.Status.Conditions {
		seen.ready = seen.ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	n.byName[object.Name] = seen
	if host := object.Labels[corev1.LabelHostname]; host != "" {
		n.byHost[host] = append(n.byHost[host], object.Name)
	}
}
