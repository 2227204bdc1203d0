// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
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

// StopProvisioners deletes the provisioners' DaemonSets and their cleaning Jobs in a namespace, in
// all namespaces if it is empty, and returns when none of their pods remains on a ready node. Then
// no released volume is adopted again or cleaned. Pods of other nodes remain until these are ready
// again. It waits until ctx ends.
func StopProvisioners(ctx context.Context, client kubernetes.Interface, namespace string) error {
	if err := deleteDaemonSets(ctx, client, namespace); err != nil {
		return err
	}
	nodes, err := listNodes(ctx, client)
	if err != nil {
		return err
	}
	// Provisioners request Jobs, and Jobs create pods, so in this order.
	inNamespace := client.CoreV1().Pods(namespace)
	for _, w := range []waiting{
		pods("provisioners", nodes, listWatch(client, provisioners, inNamespace.List, inNamespace.Watch), func(pod *corev1.Pod) bool { return pod.Spec.ServiceAccountName == provisionerAccount }),
		cleaningJobs(ctx, client, nodes, namespace),
		pods("cleaning pods", nodes, listWatch(client, cleaning, inNamespace.List, inNamespace.Watch), func(pod *corev1.Pod) bool { return pod.Labels[wellknown.CleaningLabel] != "" }), // also of deleted Jobs
	} {
		if err := w.awaitGone(ctx); err != nil {
			return err
		}
	}
	return nil
}

// deleteDaemonSets deletes the DaemonSets of the provisioners.
func deleteDaemonSets(ctx context.Context, client kubernetes.Interface, namespace string) error {
	var sets []*appsv1.DaemonSet
	err := each(ctx, client.AppsV1().DaemonSets(namespace).List, metav1.ListOptions{}, func(set *appsv1.DaemonSet) {
		if set.Spec.Template.Spec.ServiceAccountName == provisionerAccount {
			sets = append(sets, set)
		}
	})
	if err != nil {
		return fmt.Errorf("list DaemonSets: %w", err)
	}
	background := metav1.DeletePropagationBackground
	for _, set := range sets {
		err := client.AppsV1().DaemonSets(set.Namespace).Delete(ctx, set.Name, metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
		}
	}
	return nil
}

// waiting describes objects of one kind whose end is awaited.
type waiting struct {
	what   string // the plural, for users
	source cache.ListerWatcher
	kind   runtime.Object
	// stays reports whether to wait for an existing object.
	stays func(object metav1.Object) (bool, error)
}

// provisioners selects the pods of provisioners; cleaning selects cleaning Jobs and their pods.
var (
	provisioners = metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.serviceAccountName", provisionerAccount).String()}
	cleaning     = metav1.ListOptions{LabelSelector: wellknown.CleaningLabel}
)

// pods returns the pods of a source for which is returns true.
func pods(what string, nodes nodes, source cache.ListerWatcher, is func(*corev1.Pod) bool) waiting {
	return waiting{
		what, source, &corev1.Pod{},
		func(object metav1.Object) (bool, error) {
			pod, ok := object.(*corev1.Pod)
			return ok && is(pod) && !ended(pod) && nodes.byName[pod.Spec.NodeName].ready, nil
		},
	}
}

// cleaningJobs returns the cleaning Jobs. Each is deleted when it is observed, with its pod.
func cleaningJobs(ctx context.Context, client kubernetes.Interface, nodes nodes, namespace string) waiting {
	jobs, deleted := client.BatchV1().Jobs(namespace), map[types.UID]bool{}
	foreground := metav1.DeletePropagationForeground
	return waiting{
		"cleaning Jobs", listWatch(client, cleaning, jobs.List, jobs.Watch), &batchv1.Job{},
		func(object metav1.Object) (bool, error) {
			job, ok := object.(*batchv1.Job)
			if !ok || job.Labels[wellknown.CleaningLabel] == "" {
				return false, nil
			}
			if !deleted[job.UID] {
				err := client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: metav1.NewUIDPreconditions(string(job.UID))})
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return false, fmt.Errorf("delete Job %s/%s: %w", job.Namespace, job.Name, err)
				}
				deleted[job.UID] = true
			}
			return !cleanjob.Ended(job) && nodes.byName[job.Annotations[wellknown.NodeNameAnnotation]].ready, nil
		},
	}
}

// listWatch lists and watches selected objects.
func listWatch[L runtime.Object](
	client kubernetes.Interface, selected metav1.ListOptions,
	list func(context.Context, metav1.ListOptions) (L, error), watching func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.ListerWatcher {
	restrict := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector, options.FieldSelector = selected.LabelSelector, selected.FieldSelector
		return options
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, restrict(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return watching(ctx, restrict(options))
		},
	}, client)
}

// awaitGone returns when none of the objects is left.
func (w waiting) awaitGone(ctx context.Context) error {
	left := map[string]bool{}
	observe := func(object any, deleted bool) error {
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
			if err := observe(object, false); err != nil {
				return false, err
			}
		}
		return len(left) == 0, nil
	}
	_, err := watchtools.UntilWithSync(ctx, w.source, w.kind, listed, func(event watch.Event) (bool, error) {
		err := observe(event.Object, event.Type == watch.Deleted)
		return len(left) == 0, err
	})
	if err != nil {
		names := slices.Sorted(maps.Keys(left))
		return fmt.Errorf("wait for %d %s to end (%s): %w", len(left), w.what, strings.Join(names, ", "), err)
	}
	return nil
}
