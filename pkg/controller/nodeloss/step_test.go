// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
)

// TestPretendedReleasesAreForgotten: a dry run of years does not grow.
func TestPretendedReleasesAreForgotten(t *testing.T) {
	t.Parallel()
	c := &Controller{released: map[string]time.Time{}, pretended: map[string]pretence{}}
	begin := time.Now()
	for i := range 100 {
		name := fmt.Sprint("pv-", i)
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		g := &gathered{volume: volume, Facts: rules.Facts{Now: begin.Add(time.Duration(i) * rules.Window), Claim: &rules.Claim{UID: "claim"}}}
		c.pretendTo(g, rules.Decision{Do: rules.Begin})
	}
	if n := len(c.released); n > 3 {
		t.Errorf("%d releases are remembered, want those of two windows", n)
	}
}

// TestReleasesOfOthers: what somebody writes on a volume that is none of ours is none of
// the budget's.
func TestReleasesOfOthers(t *testing.T) {
	t.Parallel()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{wellknown.ReleaseAnnotation: "claim 2026-11-22T12:00:00Z"}}}
	if keys, err := released(volume); err != nil || len(keys) > 0 {
		t.Errorf("it is counted: %v, %v", keys, err)
	}
}
