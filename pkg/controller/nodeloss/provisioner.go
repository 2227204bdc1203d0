// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"stowage.dev/stowage/pkg/controller/loop"
)

// Namespace and label of the provisioner's pods in the manifests.
const (
	provisionerNamespace = "stowage-system"
	provisionerLabel     = "app.kubernetes.io/name"
	provisionerName      = "stowage-provisioner"
)

// provisionerSince is since when a provisioner of a node is Ready, from the informer; zero if none
// is.
func (c *Controller) provisionerSince(node string) time.Time {
	var since time.Time
	for _, pod := range loop.List[corev1.Pod](c.pods, byProvisioner, node) {
		since = earlier(since, readySince(pod))
	}
	return since
}

// liveProvisionerSince is the same from the API server.
func (c *Controller) liveProvisionerSince(ctx context.Context, node string) (since time.Time, err error) {
	pods, err := c.Client.CoreV1().Pods(provisionerNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{provisionerLabel: provisionerName}.String(),
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return since, apiError("list the provisioners of node "+node, err)
	}
	for i := range pods.Items {
		since = earlier(since, readySince(&pods.Items[i]))
	}
	return since, nil
}

// earlier returns the earlier of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// readySince is since when a pod is Ready; zero if it is not, or is terminating.
func readySince(pod *corev1.Pod) time.Time {
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

// nodeOfProvisioner returns the node of a provisioner's pod; none for other pods.
func nodeOfProvisioner(pod *corev1.Pod) []string {
	if pod.Namespace != provisionerNamespace || pod.Labels[provisionerLabel] != provisionerName || pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// provisionerDiffers reports whether a relevant field of a provisioner's pod has changed.
func provisionerDiffers(old any, pod *corev1.Pod) bool {
	before, ok := old.(*corev1.Pod)
	return !ok || before.Spec.NodeName != pod.Spec.NodeName || !readySince(before).Equal(readySince(pod))
}
