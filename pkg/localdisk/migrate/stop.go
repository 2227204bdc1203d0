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

// StopProvisioners deletes the provisioners' DaemonSet and their cleaning Jobs, and returns when
// none of their pods remains on a ready node. Then no released volume is adopted again or
// cleaned. Pods of other nodes remain until these are ready again. It waits until ctx ends.
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
	byAccount := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.serviceAccountName", provisionerAccount).String()}
	for _, w := range []waiting{
		pods("provisioners", client, nodes, byAccount, func(pod *corev1.Pod) bool { return pod.Spec.ServiceAccountName == provisionerAccount }),
		cleaningJobs(ctx, client, nodes),
		pods("cleaning pods", client, nodes, cleaning, func(pod *corev1.Pod) bool { return pod.Labels[wellknown.CleaningLabel] != "" }), // also of deleted Jobs
	} {
		if err := w.awaitGone(ctx); err != nil {
			return err
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

// cleaning selects cleaning Jobs and their pods.
var cleaning = metav1.ListOptions{LabelSelector: wellknown.CleaningLabel}

// pods returns the selected pods in the provisioners' namespace for which is returns true.
func pods(what string, client kubernetes.Interface, nodes nodes, selected metav1.ListOptions, is func(*corev1.Pod) bool) waiting {
	pods := client.CoreV1().Pods(provisionerNamespace)
	return waiting{
		what, listWatch(client, selected, pods.List, pods.Watch), &corev1.Pod{},
		func(object metav1.Object) (bool, error) {
			pod, ok := object.(*corev1.Pod)
			return ok && is(pod) && !ended(pod) && nodes.byName[pod.Spec.NodeName].ready, nil
		},
	}
}

// cleaningJobs returns the cleaning Jobs. Each is deleted when it is observed, with its pod.
func cleaningJobs(ctx context.Context, client kubernetes.Interface, nodes nodes) waiting {
	jobs, deleted := client.BatchV1().Jobs(provisionerNamespace), map[types.UID]bool{}
	foreground := metav1.DeletePropagationForeground
	return waiting{
		"cleaning Jobs", listWatch(client, cleaning, jobs.List, jobs.Watch), &batchv1.Job{},
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
