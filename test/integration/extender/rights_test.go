// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster"
)

// Service accounts in addition to the shipped one.
const (
	// reader has the rights of the shipped one in mode Advisory, without full/rbac.yaml.
	reader = "reader"
	// limited has the rights of full/rbac.yaml, except for the status of volumes and claims.
	limited = "limited"
)

// grant gives the service accounts their rights.
func grant(ctx context.Context, c *cluster.Cluster) error {
	rbac := c.Client().RbacV1()
	writer := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "extender-test-limited"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"persistentvolumes", "persistentvolumeclaims"}, Verbs: []string{"get", "update"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"pods/binding"}, Verbs: []string{"create"}},
		},
	}
	if _, err := rbac.ClusterRoles().Create(ctx, writer, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, of := range []struct{ account, role string }{{reader, "stowage-extender"}, {limited, "stowage-extender"}, {limited, writer.Name}} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "extender-test-" + of.account + "-" + of.role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: of.role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: of.account}},
		}
		if _, err := rbac.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
