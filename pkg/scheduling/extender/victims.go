// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"iter"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"stowage.dev/stowage/pkg/scheduling/claims"
)

// ephemeralOn is the index of the pods with ephemeral volumes, whose eviction frees
// volumes, by "PRIORITY/NODE". Of thousands of rejected nodes few have such pods of lower
// priority, and no other pods are read.
const ephemeralOn = "stowage.dev/ephemeral-on"

// indexEphemeral is the index function of ephemeralOn.
func indexEphemeral(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" || !claims.AnyEphemeral(pod) {
		return nil, nil
	}
	return []string{strconv.Itoa(int(corev1helpers.PodPriority(pod))) + "/" + pod.Spec.NodeName}, nil
}

// evictable finds the pods with ephemeral volumes and an evictable priority, by node. It
// is for one call and lists lazily; not safe for concurrent use.
type evictable struct {
	of       *Extender
	mayEvict func(priority int32) bool
	keys     map[string][]string // of ephemeralOn, by node; nil: not listed
}

// lowerThan returns which priorities are lower than the pod's.
func lowerThan(pod *v1.Pod) func(priority int32) bool {
	own := corev1helpers.PodPriority(pod)
	return func(priority int32) bool { return priority < own }
}

// any reports whether on yields anything.
func (v *evictable) any(node string) bool { return len(v.list()[node]) > 0 }

// on yields the pods on a node.
func (v *evictable) on(node string) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, key := range v.list()[node] {
			found, err := v.of.indexed.ByIndex(ephemeralOn, key)
			if err != nil {
				return // cannot happen: New added the index
			}
			for _, object := range found {
				if pod, ok := object.(*v1.Pod); ok && !yield(pod) {
					return
				}
			}
		}
	}
}

func (v *evictable) list() map[string][]string {
	if v.keys != nil {
		return v.keys
	}
	v.keys = map[string][]string{}
	if !v.of.cache.AnyEvictable() {
		return v.keys
	}
	for _, key := range v.of.indexed.ListIndexFuncValues(ephemeralOn) {
		text, node, _ := strings.Cut(key, "/")
		if priority, err := strconv.ParseInt(text, 10, 32); err == nil && v.mayEvict(int32(priority)) {
			v.keys[node] = append(v.keys[node], key)
		}
	}
	return v.keys
}
