// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/test/integration/fixture"
)

// controllerName is that of the controller, its service account, and its Lease.
const controllerName = "stowage-controller"

// named is a user as the subject of a binding.
func named(user string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}
}

// bind binds a role to a subject: a Role of the test's namespace in it, or a ClusterRole in the cluster.
func bind(e *fixture.Env, name string, role rbacv1.RoleRef, subject rbacv1.Subject) {
	e.T.Helper()
	meta, subjects := metav1.ObjectMeta{Name: name}, []rbacv1.Subject{subject}
	e.Do(func(ctx context.Context) (err error) {
		if role.Kind == "Role" {
			_, err = e.Client.RbacV1().RoleBindings(e.Namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}, metav1.CreateOptions{})
		} else {
			_, err = e.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}, metav1.CreateOptions{})
		}
		return err
	})
}

// createRole creates a Role in the test's namespace, or a ClusterRole.
func createRole(e *fixture.Env, kind, name string, rules ...rbacv1.PolicyRule) rbacv1.RoleRef {
	e.T.Helper()
	meta := metav1.ObjectMeta{Name: name}
	e.Do(func(ctx context.Context) (err error) {
		if kind == "Role" {
			_, err = e.Client.RbacV1().Roles(e.Namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		} else {
			_, err = e.Client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		}
		return err
	})
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// installController creates the controller in the test's namespace, with its rights. It does not run.
func installController(e *fixture.Env) {
	e.T.Helper()
	labels := map[string]string{"app.kubernetes.io/name": controllerName}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: controllerName, Labels: labels},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{ServiceAccountName: controllerName, Containers: []corev1.Container{{Name: "controller", Image: controllerName}}},
		}},
	}
	e.Do(func(ctx context.Context) error {
		_, err := e.Client.AppsV1().Deployments(e.Namespace).Create(ctx, deployment, metav1.CreateOptions{})
		return err
	})
	manifest, err := snapshot.Open("../../../manifests/controller/base/rbac.yaml")
	if err != nil {
		e.T.Fatal(err)
	}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: e.Namespace, Name: controllerName}
	for _, role := range snapshot.Of[*rbacv1.ClusterRole](manifest) {
		bind(e, e.Name(role.Name), createRole(e, "ClusterRole", e.Name(role.Name), role.Rules...), account)
	}
	for _, role := range snapshot.Of[*rbacv1.Role](manifest) {
		bind(e, role.Name, createRole(e, "Role", role.Name, role.Rules...), account)
	}
}

// TestRights: that the controller lacks a right is found by who may read roles, and by who may only ask the API server as
// the controller. A right by any binding is found.
func TestRights(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	installController(e)
	auditor, reviewer := e.Name("auditor"), e.Name("reviewer")
	read := []string{"get", "list"}
	bind(e, auditor, createRole(e, "ClusterRole", auditor, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: read}),
		named(auditor))
	bind(e, reviewer, createRole(e, "ClusterRole", reviewer,
		rbacv1.PolicyRule{APIGroups: []string{"", "apps"}, Resources: []string{"*"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{controllerName}, Verbs: []string{"impersonate"}},
	), named(reviewer))
	e.WaitAuthorized(authorizationv1.SubjectAccessReviewSpec{
		User: reviewer, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: "apps", Resource: "deployments"},
	}, true)
	mayLead := authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + e.Namespace + ":" + controllerName, Groups: []string{"system:serviceaccounts:" + e.Namespace},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: e.Namespace, Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: controllerName},
	}
	all := "ServiceAccount " + e.Namespace + "/" + controllerName + " has all that it needs"
	check := func(want string) {
		t.Helper()
		for _, user := range []string{auditor, reviewer, admin} {
			if got := rightsOf(e, user); !strings.HasPrefix(got, want) {
				t.Errorf("as %q: %q, want %q", user, got, want)
			}
		}
	}

	e.WaitAuthorized(mayLead, true)
	check("OK: " + all)

	e.Do(func(ctx context.Context) error {
		return e.Client.RbacV1().RoleBindings(e.Namespace).Delete(ctx, controllerName, metav1.DeleteOptions{})
	})
	e.WaitAuthorized(mayLead, false)
	check("Problem: ServiceAccount " + e.Namespace + "/" + controllerName + " lacks 3 rights: create leases.coordination.k8s.io in namespace " + e.Namespace + ",")

	bind(e, "other", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: controllerName},
		rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + e.Namespace})
	e.WaitAuthorized(mayLead, true)
	check("OK: " + all)
}

// rightsOf returns the result of the check of rights about the controller of the test, as status shows it to a user.
func rightsOf(e *fixture.Env, user string) string {
	e.T.Helper()
	output := plugin(e, user, "status", "-o", "json")
	status := &v1alpha1.Status{}
	if err := json.NewDecoder(strings.NewReader(output)).Decode(status); err != nil {
		e.T.Fatalf("%v:\n%s", err, output)
	}
	for _, c := range status.Checks {
		if c.Name == "rights" && strings.Contains(c.Message, e.Namespace) {
			return string(c.State) + ": " + c.Message
		}
	}
	return output
}
