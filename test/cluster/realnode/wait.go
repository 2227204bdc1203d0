// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// WaitNotReady returns when the node's Ready condition is not True.
func (n *Node) WaitNotReady(ctx context.Context) error {
	return n.wait(ctx, "not Ready", func(node *corev1.Node) bool { return !ready(node) })
}

// waitReady returns when kubelet has reported the node Ready since its boot, and the taint that
// keeps pods away until then is removed.
func (n *Node) waitReady(ctx context.Context, boot string) error {
	return n.wait(ctx, "Ready", func(node *corev1.Node) bool {
		for _, t := range node.Spec.Taints {
			if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
				return false
			}
		}
		return ready(node) && node.Status.NodeInfo.BootID == boot
	})
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// wait watches the Node object until done returns true. It fails when ctx ends, with its cause.
func (n *Node) wait(ctx context.Context, what string, done func(*corev1.Node) bool) error {
	lw := cache.NewListWatchFromClient(n.cluster.Client().CoreV1().RESTClient(), "nodes", metav1.NamespaceAll,
		fields.OneTermEqualSelector(metav1.ObjectNameField, n.Name))
	last := "the Node does not exist"
	_, err := watchtools.UntilWithSync(ctx, lw, &corev1.Node{}, nil, func(e watch.Event) (bool, error) {
		node, ok := e.Object.(*corev1.Node)
		if !ok || e.Type == watch.Deleted {
			return false, nil
		}
		last = describe(node)
		return done(node), nil
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("wait until node %s is %s: %w; last seen: %s", n.Name, what, err, last)
	}
	return nil
}

func describe(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return fmt.Sprintf("Ready is %s, %s: %s; taints %v", c.Status, c.Reason, c.Message, node.Spec.Taints)
		}
	}
	return "it has no condition Ready"
}
