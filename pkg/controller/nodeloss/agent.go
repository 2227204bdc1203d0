// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// What the pods of agents are known by, as the manifests have them.
const (
	agentNamespace = "stowage-system"
	agentLabel     = "app.kubernetes.io/name"
	agentName      = "stowage-provisioner"
)

// agentSince is since when the informer shows an agent of a node that works; zero if it
// shows none.
func (c *Controller) agentSince(node string) (time.Time, error) {
	objects, err := c.pods.GetIndexer().ByIndex(byAgent, node)
	if err != nil {
		return time.Time{}, fmt.Errorf("find the agent of node %s: %w", node, err)
	}
	var since time.Time
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			since = earlier(since, worksSince(pod))
		}
	}
	return since, nil
}

// liveAgentSince is the same, as the API server has it.
func (c *Controller) liveAgentSince(ctx context.Context, node string) (time.Time, error) {
	pods, err := c.Client.CoreV1().Pods(agentNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{agentLabel: agentName}.String(),
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return time.Time{}, unavailable("list the agents of node "+node, err)
	}
	var since time.Time
	for i := range pods.Items {
		since = earlier(since, worksSince(&pods.Items[i]))
	}
	return since, nil
}

// earlier is the earlier of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// worksSince is since when a pod is Ready; zero if it is not, or is on its way out.
func worksSince(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return time.Time{}
	}
	for i := range pod.Status.Conditions {
		if ready := &pod.Status.Conditions[i]; ready.Type == corev1.PodReady && ready.Status == corev1.ConditionTrue {
			return ready.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// nodeOfAgent is the node of an agent's pod.
func nodeOfAgent(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Namespace != agentNamespace || pod.Labels[agentLabel] != agentName || pod.Spec.NodeName == "" {
		return nil, nil
	}
	return []string{pod.Spec.NodeName}, nil
}

// agentDiffers says whether something of an agent's pod has changed that matters here.
func agentDiffers(old, object any) bool {
	before, ok := old.(*corev1.Pod)
	pod, is := object.(*corev1.Pod)
	return !ok || !is || before.Spec.NodeName != pod.Spec.NodeName || !worksSince(before).Equal(worksSince(pod))
}
