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

// TestDryRunReleasesAreForgotten: the memory of a dry run does not grow.
func TestDryRunReleasesAreForgotten(t *testing.T) {
	t.Parallel()
	c := &Controller{released: map[string]time.Time{}, dryRuns: map[string]dryRunState{}}
	beginRelease := time.Now()
	for i := range 100 {
		name := fmt.Sprint("pv-", i)
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		f := &volumeFacts{volume: volume, Facts: rules.Facts{Now: beginRelease.Add(time.Duration(i) * rules.Window), Claim: &rules.Claim{UID: "claim"}}}
		c.simulate(f, rules.Decision{Do: rules.BeginRelease})
	}
	if n := len(c.released); n > 3 {
		t.Errorf("%d releases are remembered, want those of two windows", n)
	}
}

// TestReleasesOfOthers: annotations of volumes that are not owned do not count.
func TestReleasesOfOthers(t *testing.T) {
	t.Parallel()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{wellknown.ReleaseAnnotation: "claim 2026-11-22T12:00:00Z"}}}
	if keys, err := volumeIndexes(owned)[byRelease](volume); err != nil || len(keys) > 0 {
		t.Errorf("it is counted: %v, %v", keys, err)
	}
}
