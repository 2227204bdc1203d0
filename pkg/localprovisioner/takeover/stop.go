// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// agentSet is the DaemonSet of the manifests.
const agentSet = "stowage-provisioner"

// StopAgents deletes the agents' DaemonSet and returns when none of its pods is left on a
// node that is ready, so that nobody takes back what is let go. Pods of other nodes stay
// for as long as these are away. It waits until ctx ends.
func StopAgents(ctx context.Context, client kubernetes.Interface) error {
	background := metav1.DeletePropagationBackground
	err := client.AppsV1().DaemonSets(agentNamespace).Delete(ctx, agentSet, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete DaemonSet %s/%s: %w", agentNamespace, agentSet, err)
	}
	nodes, err := listNodes(ctx, client)
	if err != nil {
		return err
	}
	return awaitGone(ctx, agents(client), func(node string) bool { return nodes.byName[node].ready })
}

// agents lists and watches the agents' pods.
func agents(client kubernetes.Interface) cache.ListerWatcher {
	pods := client.CoreV1().Pods(agentNamespace)
	theirs := fields.OneTermEqualSelector("spec.serviceAccountName", agentAccount).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = theirs
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = theirs
			return pods.Watch(ctx, options)
		},
	}, client)
}

// awaitGone returns when no pod of a node that counts is left.
func awaitGone(ctx context.Context, pods cache.ListerWatcher, counts func(node string) bool) error {
	left := map[string]bool{}
	see := func(pod *corev1.Pod, deleted bool) {
		if deleted || ended(pod) || !counts(pod.Spec.NodeName) {
			delete(left, pod.Name)
			return
		}
		left[pod.Name] = true
	}
	listed := func(store cache.Store) (bool, error) {
		for _, object := range store.List() {
			if pod, ok := object.(*corev1.Pod); ok {
				see(pod, false)
			}
		}
		return len(left) == 0, nil
	}
	_, err := watchtools.UntilWithSync(ctx, pods, &corev1.Pod{}, listed, func(event watch.Event) (bool, error) {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			see(pod, event.Type == watch.Deleted)
		}
		return len(left) == 0, nil
	})
	if err != nil {
		names := slices.Sorted(maps.Keys(left))
		return fmt.Errorf("wait for %d agents to end (%s): %w", len(left), strings.Join(names, ", "), err)
	}
	return nil
}
