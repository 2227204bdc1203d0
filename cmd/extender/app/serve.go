// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// onlyLeader rejects calls while another replica leads.
func onlyLeader(leading *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !leading.Load() {
			http.Error(w, errStandby.Error(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// newInformers creates informers without what the cache never reads: terminated pods, and
// managed fields.
func newInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	factory.InformerFor(&v1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		running := fields.AndSelectors(
			fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed)))
		byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, byNamespace,
			func(o *metav1.ListOptions) { o.FieldSelector = running.String() })
	})
	return factory
}

// trim removes the managed fields of an object, and of a pod the containers and most of
// the status: for all pods of a cluster these are most of the memory.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	if pod, ok := object.(*v1.Pod); ok {
		pod.Spec.Containers, pod.Spec.InitContainers, pod.Spec.EphemeralContainers = nil, nil, nil
		pod.Status = v1.PodStatus{Phase: pod.Status.Phase, NominatedNodeName: pod.Status.NominatedNodeName}
	}
	return object, nil
}
