// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// everything enables what the defaults do not, of the kinds that the API server has.
const everything = "extender.enabled=true,pav.enabled=true,networkPolicy.enabled=true,priorityClassQuota=true,metrics.secure=true," +
	"scheduler.rightsForKubeScheduler=true,controller.cleaningJobs=true,provisioner.startupTaint.enabled=true,commonLabels.team=storage"

// TestUpgradeByServerSideApply: from the chart of an earlier commit, and then from each set of values to another,
// Helm applies all objects, keeps those that stay, and has no conflict with what the controller writes.
func TestUpgradeByServerSideApply(t *testing.T) {
	t.Parallel()
	if fixture.PolicyVersion() != "admissionregistration.k8s.io/v1" {
		t.Skip("the extender needs MutatingAdmissionPolicy")
	}
	s := newSite(t)
	folder := t.TempDir()
	previous, settings := filepath.Join(folder, "manifests/charts/stowage"), "scheduler.image.tag="+schedulerTag(minor())
	gone := []string{ // the earlier chart had the scheduler in kube-system
		"kube-system/ConfigMap stowage-scheduler-config", "kube-system/Deployment stowage-scheduler", "kube-system/PodDisruptionBudget stowage-scheduler",
		"kube-system/Role stowage-scheduler-leader-election", "kube-system/RoleBinding stowage-scheduler-leader-election", "kube-system/ServiceAccount stowage-scheduler",
	}
	switch err := cluster.EarlierManifests(t.Context(), folder); {
	case errors.Is(err, cluster.ErrNoCommit):
		previous, gone = chart, nil
	case err != nil:
		t.Fatal(err)
	case minor() != newestMinor(t): // that chart has no scheduler for this minor
		settings, gone = "scheduler.enabled=false", nil
	}
	s.helm("install", release, previous, "--create-namespace", "--server-side=true", "--set", settings)
	before := s.objects()
	var defaults map[string]string
	for _, step := range []struct {
		set  string
		gone []string
	}{
		{"crds.keep=true", gone},
		{everything, nil},
		{everything + ",scheduler.replicaCount=3", nil},
	} {
		s.helm("upgrade", release, chart, "--reset-values", "--server-side=true", "--set", step.set)
		after := s.objects()
		if diff := cmp.Diff(step.gone, changed(before, after)); diff != "" {
			t.Errorf("%s: objects deleted or recreated (-want +got):\n%s", step.set, diff)
		}
		if before = after; defaults == nil {
			defaults = after
		}
	}

	// As the controller does, which owns its keys.
	parameters := s.Client().CoreV1().ConfigMaps(namespace)
	hosts := applyv1.ConfigMap("stowage-provisioner-nodes", namespace).WithData(map[string]string{"host.a.example.com": "a"})
	if _, err := parameters.Apply(t.Context(), hosts, metav1.ApplyOptions{FieldManager: "stowage-controller-nodehosts"}); err != nil {
		t.Fatal(err)
	}
	s.helm("upgrade", release, chart, "--reset-values", "--server-side=true", "--set", `provisioner.hostnames.b=c`)
	written, err := parameters.Get(t.Context(), "stowage-provisioner-nodes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"classes": "local-disks", "host.a.example.com": "a", "host.b": "c"}, written.Data); diff != "" {
		t.Errorf("parameters of the policies after an upgrade (-want +got):\n%s", diff)
	}
	s.checkManagers(written)
	if lost := changed(defaults, s.objects()); len(lost) > 0 {
		t.Errorf("deleted or recreated, although every set of values has them: %q", lost)
	}
}

// objects are the UIDs of all objects of the release.
func (s *site) objects() map[string]string {
	s.t.Helper()
	out, err := command(s.t, tools.helm, "get", "manifest", release, "--kubeconfig", s.Kubeconfig(), "--namespace", namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	uids := map[string]string{}
	for _, o := range parse(s.t, out) {
		found, err := cluster.ResourceOf(s.client, o).Get(s.t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			s.t.Fatalf("%s of the release: %v", name(o), err)
		}
		uids[name(o)] = string(found.GetUID())
	}
	return uids
}

// changed are the objects that are gone or have another UID.
func changed(before, after map[string]string) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if before[key] != after[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// checkManagers: Helm owns what it wrote by server-side apply alone, so that what it no longer writes is removed.
func (s *site) checkManagers(written *corev1.ConfigMap) {
	s.t.Helper()
	managers := map[string]string{}
	for _, entry := range written.ManagedFields {
		managers[entry.Manager] = string(entry.Operation)
	}
	want := map[string]string{"helm": "Apply", "stowage-controller-nodehosts": "Apply"}
	if diff := cmp.Diff(want, managers); diff != "" {
		s.t.Errorf("field managers (-want +got):\n%s", diff)
	}
}
