// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
)

// daemonSet is the DaemonSet of the manifests.
const daemonSet = "stowage-provisioner"

// StopProvisioners deletes the provisioners' DaemonSet and the Jobs that clean for them, and returns
// when none of their pods remains on a ready node: what is released is neither adopted again
// nor cleaned. Pods of other nodes remain until these return. It waits until ctx ends.
func StopProvisioners(ctx context.Context, client kubernetes.Interface) error {
	background := metav1.DeletePropagationBackground
	err := client.AppsV1().DaemonSets(provisionerNamespace).Delete(ctx, daemonSet, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete DaemonSet %s/%s: %w", provisionerNamespace, daemonSet, err)
	}
	nodes, err := listNodes(ctx, client)
	if err != nil {
		return err
	}
	// Provisioners request Jobs, and Jobs create pods, so in this order.
	for _, w := range []waiting{provisioners(client, nodes), cleaningJobs(ctx, client, nodes), cleaningPods(client, nodes)} {
		if err := w.awaitGone(ctx); err != nil {
			return err
		}
	}
	return nil
}

// waiting describes objects of one kind that have to be gone.
type waiting struct {
	what   string // the plural, for users
	source cache.ListerWatcher
	kind   runtime.Object
	// stays reports whether to wait for an existing object.
	stays func(object metav1.Object) (bool, error)
}

// provisioners returns the provisioners' pods.
func provisioners(client kubernetes.Interface, nodes nodes) waiting {
	theirs := fields.OneTermEqualSelector("spec.serviceAccountName", provisionerAccount).String()
	return waiting{
		"provisioners", pods(client, func(options *metav1.ListOptions) { options.FieldSelector = theirs }), &corev1.Pod{},
		func(object metav1.Object) (bool, error) {
			pod, ok := object.(*corev1.Pod)
			return ok && pod.Spec.ServiceAccountName == provisionerAccount && !ended(pod) && nodes.byName[pod.Spec.NodeName].ready, nil
		},
	}
}

// cleaningPods are those of the Jobs that clean, also of Jobs that are gone.
func cleaningPods(client kubernetes.Interface, nodes nodes) waiting {
	return waiting{
		"pods that clean", pods(client, func(options *metav1.ListOptions) { options.LabelSelector = wellknown.CleaningLabel }), &corev1.Pod{},
		func(object metav1.Object) (bool, error) {
			pod, ok := object.(*corev1.Pod)
			return ok && pod.Labels[wellknown.CleaningLabel] != "" && !ended(pod) && nodes.byName[pod.Spec.NodeName].ready, nil
		},
	}
}

// cleaningJobs are the Jobs that clean. Each is deleted when it is seen, with its pod.
func cleaningJobs(ctx context.Context, client kubernetes.Interface, nodes nodes) waiting {
	jobs, deleted := client.BatchV1().Jobs(provisionerNamespace), map[types.UID]bool{}
	foreground := metav1.DeletePropagationForeground
	return waiting{
		"cleaning Jobs", cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.LabelSelector = wellknown.CleaningLabel
				return jobs.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.LabelSelector = wellknown.CleaningLabel
				return jobs.Watch(ctx, options)
			},
		}, client), &batchv1.Job{},
		func(object metav1.Object) (bool, error) {
			job, ok := object.(*batchv1.Job)
			if !ok || job.Labels[wellknown.CleaningLabel] == "" {
				return false, nil
			}
			if !deleted[job.UID] {
				err := jobs.Delete(ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: metav1.NewUIDPreconditions(string(job.UID))})
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return false, fmt.Errorf("delete Job %s/%s: %w", job.Namespace, job.Name, err)
				}
				deleted[job.UID] = true
			}
			return !cleanjob.Ended(job) && nodes.byName[job.Annotations[wellknown.NodeNameAnnotation]].ready, nil
		},
	}
}

// pods lists and watches some pods of the provisioners' namespace.
func pods(client kubernetes.Interface, which func(*metav1.ListOptions)) cache.ListerWatcher {
	pods := client.CoreV1().Pods(provisionerNamespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			which(&options)
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			which(&options)
			return pods.Watch(ctx, options)
		},
	}, client)
}

// awaitGone returns when all objects that are waited for are gone.
func (w waiting) awaitGone(ctx context.Context) error {
	left := map[string]bool{}
	see := func(object any, deleted bool) error {
		of, ok := object.(metav1.Object)
		if !ok {
			return nil
		}
		stays := false
		if !deleted {
			var err error
			if stays, err = w.stays(of); err != nil {
				return err
			}
		}
		if delete(left, of.GetName()); stays {
			left[of.GetName()] = true
		}
		return nil
	}
	listed := func(store cache.Store) (bool, error) {
		for _, object := range store.List() {
			if err := see(object, false); err != nil {
				return false, err
			}
		}
		return len(left) == 0, nil
	}
	_, err := watchtools.UntilWithSync(ctx, w.source, w.kind, listed, func(event watch.Event) (bool, error) {
		err := see(event.Object, event.Type == watch.Deleted)
		return len(left) == 0, err
	})
	if err != nil {
		names := slices.Sorted(maps.Keys(left))
		return fmt.Errorf("wait for %d %s to end (%s): %w", len(left), w.what, strings.Join(names, ", "), err)
	}
	return nil
}
