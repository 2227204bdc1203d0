// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// TestMerge: what one of two reads has, or could not read, the merged snapshot has, too. Neither is changed.
func TestMerge(t *testing.T) {
	t.Parallel()
	pod := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	first, second := empty(), empty()
	first.Time, first.Server = time.Unix(1, 0), &version.Info{GitVersion: "v1.37.1"}
	second.Time = time.Unix(2, 0)
	a, b := Build(pod("a")), Build(pod("b"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}})
	first.objects, second.objects = a.objects, b.objects
	first.read["pods"], second.read["pods"], second.read["configmaps"] = true, true, true
	first.absent[KindOf[*stowage.PavVolume]().Resource.GroupResource().String()] = true
	gap := Gap{Resource: "nodes", Reason: "forbidden"}
	first.Gaps, second.Gaps = []Gap{gap}, []Gap{gap, {Resource: "configmaps", Except: "own", Reason: "forbidden"}}

	merged := Merge(first, second)
	var names []string
	for _, p := range Of[*corev1.Pod](merged) {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if len(Of[*corev1.ConfigMap](merged)) != 1 || len(Of[*corev1.Pod](first)) != 1 || len(Of[*corev1.Pod](second)) != 1 {
		t.Error("an object is missing, or a snapshot was changed")
	}
	if diff := cmp.Diff(second.Gaps, merged.Gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	got := []bool{Complete[*corev1.Pod](merged), Complete[*corev1.ConfigMap](merged), Complete[*corev1.Service](merged), Served[*stowage.PavVolume](merged)}
	if diff := cmp.Diff([]bool{true, false, false, false}, got); diff != "" {
		t.Errorf("complete pods, ConfigMaps, services, and served PavVolumes (-want +got):\n%s", diff)
	}
	if !merged.Time.Equal(first.Time) || merged.Server != first.Server {
		t.Errorf("time %s, server %v", merged.Time, merged.Server)
	}
}
