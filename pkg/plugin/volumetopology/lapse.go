// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/volume/claims"
	"stowage.dev/stowage/pkg/volumecache"
)

// wakeOnLapse has waiting pods tried again, until ctx ends, when capacity has been
// held long enough for volumes whose driver never counted them in. No event tells
// the scheduling queue of it, so there is no hint.
func (p *Plugin) wakeOnLapse(ctx context.Context) {
	stop := p.cache.OnLapse(func(helps func(*volumecache.Demand) bool) {
		if woken := p.waitingFor(helps); len(woken) > 0 {
			logger := klog.FromContext(ctx)
			logger.V(2).Info("Capacity was held long enough for pods that wait for it")
			p.handle.Activate(logger, woken)
		}
	})
	context.AfterFunc(ctx, stop)
}

// waitingFor are the profile's pods without a node that something helps.
func (p *Plugin) waitingFor(helps func(*volumecache.Demand) bool) map[string]*v1.Pod {
	waiting := map[string]*v1.Pod{}
	pods, _ := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything()) // listers of informers do not fail
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || pod.Spec.SchedulerName != p.handle.ProfileName() || pod.DeletionTimestamp != nil || !claims.Any(pod) {
			continue
		}
		if demand := p.demand(pod); demand != nil && helps(demand) {
			waiting[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}.String()] = pod
		}
	}
	return waiting
}
