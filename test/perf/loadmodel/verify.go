// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// mostChecked is how many nodes a cluster has at most for the cache's own
// invariants to be checked: that takes nodes × segments.
const mostChecked = 2000

// verify checks the final state: the cache's invariants; that each claim of a
// running pod is bound to its own volume, on the pod's node and large
// enough; and that the cache has no other entries.
func (m *model) verify() error {
	if len(m.twice) > 0 {
		return fmt.Errorf("volumes were given to two claims: %v", m.twice)
	}
	if m.Nodes <= mostChecked {
		if err := m.plugin.Cache().Check(); err != nil {
			return fmt.Errorf("cache: %w", err)
		}
	}
	if held := m.plugin.Cache().Size(); held.Reservations != 0 || held.Volumes != len(m.slots) || held.Nodes != m.Nodes {
		return fmt.Errorf("cache has %+v, want no reservation, %d volumes, %d nodes", held, len(m.slots), m.Nodes)
	}
	owner := map[string]string{} // of volumes
	for _, w := range m.running {
		for _, name := range w.claims {
			key := w.pod.Namespace + "/" + name
			volume, err := m.verifyClaim(w, name)
			if err != nil {
				return fmt.Errorf("claim %s of pod %s: %w", key, w.pod.Name, err)
			}
			if other, taken := owner[volume]; taken {
				return fmt.Errorf("volume %s belongs to claims %s and %s", volume, other, key)
			}
			owner[volume] = key
		}
	}
	return m.verifyFree(owner)
}

func (m *model) verifyClaim(w *workload, name string) (volume string, err error) {
	claim, pv, err := m.bound(w.pod.Namespace, name)
	if err != nil {
		return "", err
	}
	hostname := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	switch {
	case !boundTo(claim, pv):
		return "", fmt.Errorf("not bound to volume %s", pv.Name)
	case hostname != w.pod.Spec.NodeName:
		return "", fmt.Errorf("volume %s is on node %s, the pod on %s", pv.Name, hostname, w.pod.Spec.NodeName)
	case pv.Spec.Capacity.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) < 0:
		return "", fmt.Errorf("volume %s is too small", pv.Name)
	}
	return pv.Name, nil
}

// verifyFree finds volumes that are bound to no running pod.
func (m *model) verifyFree(owner map[string]string) error {
	volumes, err := m.factory.Core().V1().PersistentVolumes().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	for _, pv := range volumes {
		if free := pv.Spec.ClaimRef == nil && pv.Status.Phase == v1.VolumeAvailable; free == (owner[pv.Name] != "") {
			errs = append(errs, fmt.Errorf("volume %s: free is %t, used by claim %q", pv.Name, free, owner[pv.Name]))
		}
	}
	if len(owner) != m.occupied {
		errs = append(errs, fmt.Errorf("%d volumes are used, %d should be", len(owner), m.occupied))
	}
	return errors.Join(errs...)
}
