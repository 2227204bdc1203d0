// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/test/cluster"
)

// TestPavOutlivesUninstall: the chart installs PavProvisioners without Stowage's own provisioner. After an
// uninstall by mistake, provisioners and their revisions still exist, and an install continues with them.
func TestPavOutlivesUninstall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	set := []string{"--set", "pav.enabled=true,provisioner.enabled=false,scheduler.enabled=false"}
	s.helm(append([]string{"install", release, chart, "--create-namespace"}, set...)...)

	data, err := os.ReadFile(files + "/pav/examples/hello-world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := slices.DeleteFunc(parse(t, string(data)), func(o object) bool { return o.GetKind() != "PavProvisioner" })
	if len(objects) != 1 {
		t.Fatalf("the example has %d PavProvisioners", len(objects))
	}
	provisioner := objects[0]
	provisioner.SetFinalizers([]string{wellknown.PavProvisionerFinalizer}) // the controller's, which does not run here
	waitFor(t, "PavProvisioner is served", func() bool { return cluster.Apply(t.Context(), s.client, provisioner) == nil })
	revisions := s.Client().AppsV1().ControllerRevisions("stowage-pav")
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "revision"}, Data: runtime.RawExtension{Raw: []byte("{}")}}
	if _, err := revisions.Create(t.Context(), revision, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		s.helm("uninstall", release, "--wait", "--timeout", waitTimeout.String())
		found, err := cluster.ResourceOf(s.client, provisioner).Get(t.Context(), provisioner.GetName(), metav1.GetOptions{})
		if err != nil || found.GetDeletionTimestamp() != nil {
			t.Errorf("the PavProvisioner after an uninstall: %v, error %v", found, err)
		}
		if kept, err := revisions.Get(t.Context(), "revision", metav1.GetOptions{}); err != nil || kept.DeletionTimestamp != nil {
			t.Errorf("its revision after an uninstall: %v, error %v", kept, err)
		}
		s.helm(append([]string{"install", release, chart}, set...)...)
	}
	for _, name := range []string{"stowage-controller", "stowage-csi"} {
		if _, err := s.Client().RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}
