// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// expectationTimeout is when an expectation expires: the volume may have been deleted while
// the watch was interrupted, so that no event meets the expectation.
const expectationTimeout = 30 * time.Second

// expectation is the provisioner's own write of a volume that the informer has not shown yet.
// A path with one is not decided on: its volume would seem to be missing, or not to be
// deleted.
type expectation struct {
	uid types.UID
	// known reports whether the informer has shown the volume before. If it does not show it
	// now, the volume is gone, which the informer may report before the request returns.
	known bool
	// version is the least resourceVersion that meets the expectation; empty means that a
	// deletionTimestamp does.
	version string
	at      time.Time
}

// write is what the provisioner did to a volume.
type write int

const (
	created write = iota
	updated
	deleted // the request, which only sets a deletionTimestamp
)

// expect is called with a volume as the API server returned it, or the informer for deleted.
func (t *pathTable) expect(w write, volume *corev1.PersistentVolume) {
	x := expectation{uid: volume.UID, known: w != created, at: time.Now()}
	if w != deleted {
		x.version = volume.ResourceVersion
	}
	t.update(pathOf(volume), func(s *pathState) { s.expected = x })
}

// shown is called with a volume that the informer shows.
func (t *pathTable) shown(volume *corev1.PersistentVolume) {
	t.update(pathOf(volume), func(s *pathState) {
		if s.expected.met(volume) {
			s.expected = expectation{}
		}
	})
}

// gone is called with a volume that the informer does not show any more.
func (t *pathTable) gone(volume *corev1.PersistentVolume) {
	t.update(pathOf(volume), func(s *pathState) {
		if s.expected.uid == volume.UID {
			s.expected = expectation{}
		}
	})
}

// pendingWrite reports whether a path waits for the informer to show a write, and when the
// expectation expires. shown are the volumes of the path that the informer has now, since it
// may have shown the write before the request returned.
func (t *pathTable) pendingWrite(path string, shown []*corev1.PersistentVolume) (left time.Duration, pending bool) {
	t.update(path, func(s *pathState) {
		x := &s.expected
		if *x == (expectation{}) {
			return
		}
		gone := x.known && !slices.ContainsFunc(shown, func(v *corev1.PersistentVolume) bool { return v.UID == x.uid })
		left = expectationTimeout - time.Since(x.at)
		pending = !gone && !slices.ContainsFunc(shown, x.met) && left > 0
		if !pending {
			s.expected, left = expectation{}, 0
		}
	})
	return left, pending
}

func (x *expectation) met(volume *corev1.PersistentVolume) bool {
	if *x == (expectation{}) || volume.UID != x.uid {
		return false
	}
	if x.version == "" {
		return volume.DeletionTimestamp != nil
	}
	order, err := resourceversion.CompareResourceVersion(volume.ResourceVersion, x.version)
	return err != nil || order >= 0
}
