// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// wakeOnRelease has the profile's waiting pods tried again, until ctx ends, when what
// kept them from a node was reserved and is released without success, or has expired.
// No event tells the scheduling queue of it, so there is no hint.
func (p *Plugin) wakeOnRelease(ctx context.Context) {
	stop := p.cache.OnRelease(func(waiting func() []*v1.Pod) {
		woken := map[string]*v1.Pod{}
		for _, pod := range waiting() {
			if pod.Spec.SchedulerName == p.handle.ProfileName() && pod.DeletionTimestamp == nil {
				woken[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String()] = pod
			}
		}
		if len(woken) > 0 {
			logger := klog.FromContext(ctx)
			logger.V(2).Info("Reservations that kept pods from nodes were released", "pods", len(woken))
			p.handle.Activate(logger, woken)
		}
	})
	context.AfterFunc(ctx, stop)
}
