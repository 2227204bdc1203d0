// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"stowage.dev/stowage/pkg/local/publish"
)

// oursOf is a volume as the agent of a node makes it.
func oursOf(name, node, identity string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: name, Finalizers: []string{publish.Finalizer}, Labels: map[string]string{publish.NodeLabel: publish.NodeHash(node)},
		Annotations: map[string]string{publish.NodeNameAnnotation: node, publish.IdentityAnnotation: identity, publish.ProvisionedByAnnotation: publish.ProvisionedBy(node)},
	}}
}

// TestVolumesAskForSweeps: also one that was bound before anybody saw it Available.
func TestVolumesAskForSweeps(t *testing.T) {
	t.Parallel()
	bound := oursOf("pv", "a", "wwn:1")
	bound.Status.Phase = corev1.VolumeBound
	others := oursOf("pv", "a", "wwn:1")
	others.Finalizers = nil
	for name, tc := range map[string]struct {
		volume *corev1.PersistentVolume
		want   int
	}{
		"bound":            {bound, 1},
		"of nobody's disk": {oursOf("pv", "a", ""), 0},
		"of others":        {others, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Controller{sweep: make(chan struct{}, 1), queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())}
			defer c.queue.ShutDown()
			c.volumeChanged(nil, tc.volume)
			if got := len(c.sweep); got != tc.want {
				t.Errorf("%d sweeps are asked for, want %d", got, tc.want)
			}
		})
	}
}
