// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func version(uid types.UID, version string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: uid, ResourceVersion: version},
		Spec:       corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/a"}}},
	}
}

func beingDeleted(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v.DeletionTimestamp = &metav1.Time{}
	return v
}

func TestExpectations(t *testing.T) {
	now := []*corev1.PersistentVolume{version("u", "5")}
	for name, test := range map[string]struct {
		do    func(*pathTable)
		shown []*corev1.PersistentVolume
		want  bool
	}{
		"nothing was written":                     {func(*pathTable) {}, now, false},
		"created, and not shown yet":              {func(e *pathTable) { e.expect(created, version("u", "5")) }, nil, true},
		"created, and shown":                      {func(e *pathTable) { e.expect(created, version("u", "5")) }, now, false},
		"created, and another one is shown":       {func(e *pathTable) { e.expect(created, version("v", "5")) }, now, true},
		"created, and gone":                       {func(e *pathTable) { e.expect(created, version("u", "5")); e.gone(version("u", "5")) }, nil, false},
		"updated, and shown as it was":            {func(e *pathTable) { e.expect(updated, version("u", "6")) }, now, true},
		"updated, and a later version is shown":   {func(e *pathTable) { e.expect(updated, version("u", "4")) }, now, false},
		"updated, and shown":                      {func(e *pathTable) { e.expect(updated, version("u", "6")); e.shown(version("u", "6")) }, now, false},
		"updated, and gone before the answer":     {func(e *pathTable) { e.gone(version("u", "6")); e.expect(updated, version("u", "6")) }, nil, false},
		"updated, and another one exists already": {func(e *pathTable) { e.expect(updated, version("u", "6")) }, []*corev1.PersistentVolume{version("v", "7")}, false},
		"deleted, and shown as it was":            {func(e *pathTable) { e.expect(deleted, version("u", "5")) }, now, true},
		"deleted, and shown with the timestamp": {
			func(e *pathTable) { e.expect(deleted, version("u", "5")) }, []*corev1.PersistentVolume{beingDeleted(version("u", "6"))}, false},
		"deleted, and gone before the answer": {func(e *pathTable) { e.gone(version("u", "5")); e.expect(deleted, version("u", "5")) }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newPathTable()
			test.do(e)
			if _, got := e.pendingWrite("/a", test.shown); got != test.want {
				t.Errorf("pending: %t, want %t", got, test.want)
			}
		})
	}
}

// TestExpectationTimeout: an expectation that is never met expires.
func TestExpectationTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newPathTable()
		e.expect(created, version("u", "5"))
		time.Sleep(expectationTimeout - time.Second) //nolint:forbidigo // the bubble's time
		if left, pending := e.pendingWrite("/a", nil); !pending || left != time.Second {
			t.Errorf("pending %t, for %s", pending, left)
		}
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
		if _, pending := e.pendingWrite("/a", nil); pending {
			t.Error("pending after the timeout")
		}
	})
}
