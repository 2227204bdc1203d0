// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
