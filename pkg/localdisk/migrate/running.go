// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
)

// provisionerAccount is the service account of the provisioners in the manifests.
const provisionerAccount = "stowage-provisioner"

// The reference's pods are recognized by its image, and by the mount path of its ConfigMap. Its
// cleaning jobs have the UID of their volume in a label.
const (
	referenceImage    = "local-volume-provisioner"
	referenceConfig   = "/etc/provisioner/config"
	referenceJobLabel = "pvuuid"
)

// referencePods returns the pods of the reference, by node. Only the pods of DaemonSets are
// listed, which are few.
func referencePods(ctx context.Context, client kubernetes.Interface) (map[string]string, error) {
	var sets []*appsv1.DaemonSet
	err := each(ctx, client.AppsV1().DaemonSets(metav1.NamespaceAll).List, metav1.ListOptions{}, func(set *appsv1.DaemonSet) {
		if runsReference(&set.Spec.Template.Spec) {
			sets = append(sets, set)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list DaemonSets: %w", err)
	}
	found := map[string]string{}
	for _, set := range sets {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("read the selector of DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
		}
		err = each(ctx, client.CoreV1().Pods(set.Namespace).List, metav1.ListOptions{LabelSelector: selector.String()}, func(pod *corev1.Pod) {
			if !ended(pod) && runsReference(&pod.Spec) {
				found[pod.Spec.NodeName] = pod.Namespace + "/" + pod.Name
			}
		})
		if err != nil {
			return nil, fmt.Errorf("list the pods of DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
		}
	}
	return found, nil
}

func runsReference(spec *corev1.PodSpec) bool {
	for i := range spec.Containers {
		c := &spec.Containers[i]
		image := c.Image[strings.LastIndex(c.Image, "/")+1:]
		name, _, _ := strings.Cut(image, "@")
		name, _, _ = strings.Cut(name, ":")
		if name == referenceImage {
			return true
		}
		for _, mount := range c.VolumeMounts {
			if strings.TrimSuffix(mount.MountPath, "/") == referenceConfig {
				return true
			}
		}
	}
	return false
}

// referenceJobs returns the reference's unfinished cleaning jobs, by the UID of the volume.
func referenceJobs(ctx context.Context, client kubernetes.Interface) (map[types.UID]string, error) {
	found := map[types.UID]string{}
	err := each(ctx, client.BatchV1().Jobs(metav1.NamespaceAll).List, metav1.ListOptions{LabelSelector: referenceJobLabel}, func(job *batchv1.Job) {
		if !cleanjob.Ended(job) {
			found[types.UID(job.Labels[referenceJobLabel])] = job.Namespace + "/" + job.Name
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the reference's jobs: %w", err)
	}
	return found, nil
}

// nodes are the cluster's nodes.
type nodes struct {
	byName map[string]node
	// byHost has the names of the nodes by hostname label; several names are a mistake.
	byHost map[string][]string
}

type node struct {
	uid   types.UID
	ready bool
}

func listNodes(ctx context.Context, client kubernetes.Interface) (nodes, error) {
	found := nodes{byName: map[string]node{}, byHost: map[string][]string{}}
	err := each(ctx, client.CoreV1().Nodes().List, metav1.ListOptions{}, found.add)
	if err != nil {
		return nodes{}, fmt.Errorf("list nodes: %w", err)
	}
	return found, nil
}

func (n *nodes) add(object *corev1.Node) {
	seen := node{uid: object.UID}
	for _, c := range object.Status.Conditions {
		seen.ready = seen.ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	n.byName[object.Name] = seen
	if host := object.Labels[corev1.LabelHostname]; host != "" {
		n.byHost[host] = append(n.byHost[host], object.Name)
	}
}

// running are the provisioners and cleaning Jobs that run, with names for users.
type running struct {
	provisioners map[string]string    // pods, by node
	cleaners     map[types.UID]string // cleaning Jobs, or their pods, by the UID of the volume
}

// findRunning finds the provisioners and their cleaning Jobs in a namespace; in all if it is empty.
func findRunning(ctx context.Context, client kubernetes.Interface, namespace string) (running, error) {
	found := running{provisioners: map[string]string{}, cleaners: map[types.UID]string{}}
	err := each(ctx, client.BatchV1().Jobs(namespace).List, cleaning, func(job *batchv1.Job) {
		if !cleanjob.Ended(job) {
			found.cleaners[types.UID(job.Labels[wellknown.CleaningLabel])] = "Job " + job.Namespace + "/" + job.Name
		}
	})
	if err != nil {
		return running{}, fmt.Errorf("list the cleaning Jobs: %w", err)
	}
	err = each(ctx, client.CoreV1().Pods(namespace).List, provisioners, func(pod *corev1.Pod) {
		if !ended(pod) && pod.Spec.ServiceAccountName == provisionerAccount {
			found.provisioners[pod.Spec.NodeName] = pod.Namespace + "/" + pod.Name
		}
	})
	if err != nil {
		return running{}, fmt.Errorf("list the provisioners' pods: %w", err)
	}
	err = each(ctx, client.CoreV1().Pods(namespace).List, cleaning, func(pod *corev1.Pod) {
		if volume := types.UID(pod.Labels[wellknown.CleaningLabel]); !ended(pod) && found.cleaners[volume] == "" {
			found.cleaners[volume] = "pod " + pod.Namespace + "/" + pod.Name
		}
	})
	if err != nil {
		return running{}, fmt.Errorf("list the pods of cleaning Jobs: %w", err)
	}
	return found, nil
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Spec.NodeName == ""
}

// pageSize is how many objects are requested at a time.
const pageSize = 500

// each calls f for every object that list lists, page by page, so that no more than a page is
// in memory.
func each[T any, L runtime.Object](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions, f func(*T)) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	})
	pages.PageSize = pageSize
	return pages.EachListItemWithAlloc(ctx, options, func(object runtime.Object) error {
		item, ok := object.(any).(*T)
		if !ok {
			return fmt.Errorf("the list has a %T", object)
		}
		f(item)
		return nil
	})
}
