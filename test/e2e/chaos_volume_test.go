// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// life is the observed lifecycle of a volume. A disk has consecutive ones: each ends with a clean.
type life struct {
	name, node, path string
	phase            corev1.PersistentVolumePhase
	// owner is the UID of the claim that it names, bound whether it was ever bound.
	owner    types.UID
	bound    bool
	deleting bool
	gone     bool
	// changes has a line for each change.
	changes []string
}

func (v *life) String() string { return fmt.Sprintf("volume %s of %s at %s", v.name, v.node, v.path) }

func (l *load) sawVolume(pv *corev1.PersistentVolume) {
	if pv.Spec.Local == nil {
		return
	}
	v := l.lives[pv.UID]
	if v == nil {
		v = &life{name: pv.Name, node: pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0], path: localpv.PathOf(pv)}
		for _, other := range l.lives {
			if !other.gone && other.node == v.node && other.path == v.path {
				l.breaks("%s is published while there is %s", v, other)
			}
		}
		l.lives[pv.UID] = v
	}
	var owner types.UID
	if ref := pv.Spec.ClaimRef; ref != nil {
		owner = ref.UID
	}
	switch {
	case v.bound && owner != v.owner:
		l.breaks("%s was given to claim %q after claim %s had had it", v, owner, v.owner)
	case v.bound && pv.Status.Phase == corev1.VolumeAvailable:
		l.breaks("%s is available after claim %s had it", v, v.owner)
	}
	v.owner, v.phase, v.deleting = owner, pv.Status.Phase, pv.DeletionTimestamp != nil
	v.bound = v.bound || v.phase == corev1.VolumeBound
	v.record(fmt.Sprintf("%s, claim %q, being deleted: %t", v.phase, v.owner, v.deleting))
}

func (l *load) lostVolume(pv *corev1.PersistentVolume) {
	if v := l.lives[pv.UID]; v != nil {
		v.gone = true
		v.record("gone")
	}
}

func (l *load) sawClaim(claim *corev1.PersistentVolumeClaim) {
	if claim.Status.Phase == corev1.ClaimLost {
		l.breaks("claim %s is lost", claim.Name)
	}
	volume := claim.Spec.VolumeName
	if volume == "" {
		return
	}
	if other, has := l.claims[volume]; has && other != claim.UID {
		l.breaks("volume %s was given to claim %s while claim %s had it", volume, claim.UID, other)
	}
	l.claims[volume] = claim.UID
}

func (l *load) lostClaim(claim *corev1.PersistentVolumeClaim) {
	if l.claims[claim.Spec.VolumeName] == claim.UID {
		delete(l.claims, claim.Spec.VolumeName)
	}
}

// allFree reports whether every disk's volume is available and no claim has one.
func (l *load) allFree() bool {
	free := 0
	for _, v := range l.lives {
		if v.gone {
			continue
		}
		if v.phase != corev1.VolumeAvailable || v.owner != "" || v.deleting {
			return false
		}
		free++
	}
	return len(l.claims) == 0 && free == len(chaosNodes)*len(chaosDisks)
}

func (v *life) record(what string) {
	if len(v.changes) == 0 || !strings.HasSuffix(v.changes[len(v.changes)-1], what) {
		v.changes = append(v.changes, time.Now().Format(time.TimeOnly)+" "+what)
	}
}

// history lists the changes of all observed volumes.
func (l *load) history() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var histories []string
	for uid, v := range l.lives {
		histories = append(histories, fmt.Sprintf("%s, %s:\n  %s\n", v, uid, strings.Join(v.changes, "\n  ")))
	}
	slices.Sort(histories)
	return strings.Join(histories, "")
}
