// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// TestUninstallFails: when the Job that releases volumes fails, Helm refuses to upgrade, as
// docs/install.md describes; a rollback restores the provisioners, and upgrades work again.
// Alternatively the cause is repaired, and the uninstall succeeds.
func TestUninstallFails(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.helm("install", release, chart, "--create-namespace", "--set", "crds.keep=false")
	s.waitDaemonSet()
	s.kubelet.broken.Store(true)
	if out, err := s.tryHelm("uninstall", release, "--timeout", waitTimeout.String()); err == nil {
		t.Fatalf("uninstalled though the Job failed:\n%s", out)
	}
	ctx, system := t.Context(), s.Client().AppsV1()
	if _, err := system.DaemonSets(namespace).Get(ctx, "stowage-provisioner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the provisioners: %v, want them ended by the Job", err)
	}
	if _, err := system.Deployments(namespace).Get(ctx, "stowage-controller", metav1.GetOptions{}); err != nil {
		t.Errorf("uninstalled though the Job failed: %v", err)
	}
	if _, err := s.Client().BatchV1().Jobs(namespace).Get(ctx, "stowage-release", metav1.GetOptions{}); err != nil {
		t.Errorf("the Job, whose log has the reason: %v", err)
	}

	s.checkNoRights()

	upgrade := []string{"upgrade", release, chart, "--set", "crds.keep=false"}
	if _, err := s.tryHelm(upgrade...); err == nil || !strings.Contains(err.Error(), "has no deployed releases") {
		t.Errorf("upgrade: %v, want it refused", err)
	}
	s.helm("rollback", release, "1")
	s.waitDaemonSet()
	s.helm(upgrade...)

	// The second time it ends by Helm's own timeout.
	if out, err := s.tryHelm("uninstall", release, "--timeout", "5s"); err == nil {
		t.Fatalf("uninstalled though the Job failed:\n%s", out)
	}
	s.checkNoRights()
	s.kubelet.broken.Store(false)
	s.helm("uninstall", release, "--wait", "--timeout", waitTimeout.String())
	s.checkNothingLeft(false)
}

// checkNoRights: a Job that failed leaves no account with rights over all volumes.
func (s *site) checkNoRights() {
	s.t.Helper()
	ctx, client := s.t.Context(), s.Client()
	_, account := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "stowage-release", metav1.GetOptions{})
	_, role := client.RbacV1().ClusterRoles().Get(ctx, "stowage-release", metav1.GetOptions{})
	_, binding := client.RbacV1().ClusterRoleBindings().Get(ctx, "stowage-release", metav1.GetOptions{})
	for what, err := range map[string]error{"service account": account, "ClusterRole": role, "ClusterRoleBinding": binding} {
		if !apierrors.IsNotFound(err) {
			s.t.Errorf("the %s of the Job that failed: %v, want it deleted", what, err)
		}
	}
}

// checkLeft: volumes with data of claims are left and can be deleted, other volumes are deleted.
func (s *site) checkLeft(volumes []string, job string) {
	s.t.Helper()
	left := map[string][]string{}
	for _, name := range volumes {
		pv, err := s.Client().CoreV1().PersistentVolumes().Get(s.t.Context(), name, metav1.GetOptions{})
		if err == nil {
			left[name] = notKubernetes(pv.Finalizers)
		} else if !apierrors.IsNotFound(err) {
			s.t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string][]string{inUse: {}, givenBack: {}}, left); diff != "" {
		s.t.Errorf("volumes and their finalizers (-want +got):\n%s", diff)
	}
	printed := s.kubelet.output(job)
	for _, line := range []string{"data of its claim", "NOT CLEANED", "release and delete", "Released 4."} {
		if !strings.Contains(printed, line) {
			s.t.Errorf("release did not print %q:\n%s", line, printed)
		}
	}
}

// checkNothingLeft: none of our objects is left, and the namespace only if it was
// not created by us.
func (s *site) checkNothingLeft(alsoNamespace bool) {
	s.t.Helper()
	var left []string
	gone := func() bool {
		left = s.left(alsoNamespace)
		return len(left) == 0
	}
	if !comes(s.t, gone) {
		s.t.Errorf("left behind: %s\n%s", strings.Join(left, ", "), s.pods())
	}
}

// left are all objects that have our label or name.
func (s *site) left(alsoNamespace bool) []string {
	s.t.Helper()
	var left []string
	lists, err := discovery.ServerPreferredResources(s.Client().Discovery())
	if err != nil {
		return []string{err.Error()} // a kind that is being removed
	}
	for _, kind := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		group, err := schema.ParseGroupVersion(kind.GroupVersion)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range kind.APIResources {
			if r.Name == "events" || r.Name == "endpoints" { // each list of endpoints has a warning, and slices stand for them
				continue
			}
			objects, err := s.client.Resource(group.WithResource(r.Name)).List(s.t.Context(), metav1.ListOptions{})
			if err != nil {
				left = append(left, err.Error())
				continue
			}
			for _, o := range objects.Items {
				if s.ours(&o) && (alsoNamespace || r.Name != "namespaces") {
					left = append(left, name(&o))
				}
			}
		}
	}
	return left
}

// ours reports whether an object is of Stowage: by its label, its name or its namespace.
func (s *site) ours(o *unstructured.Unstructured) bool {
	standard := []string{"ServiceAccount default", "ConfigMap kube-root-ca.crt"}
	return o.GetLabels()["app.kubernetes.io/part-of"] == "stowage" || strings.Contains(o.GetName(), "stowage") ||
		o.GetNamespace() == s.namespace && !slices.Contains(standard, o.GetKind()+" "+o.GetName())
}
