// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"stowage.dev/stowage/pkg/inspect/install"
)

// TestReview: the rules that the API server lists are the rights; if it cannot list all, each right is requested.
func TestReview(t *testing.T) {
	t.Parallel()
	need := install.Rules{
		"":       {{APIGroups: []string{""}, Resources: []string{"pods", "pods/status"}, Verbs: []string{"get"}}, {NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		"system": {{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"leader"}, Verbs: []string{"get", "update"}}},
	}
	anyPod := authorizationv1.ResourceRule{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}}
	for name, test := range map[string]struct {
		// listed are the rules by namespace, and denied the rights that are not allowed, as they are requested.
		listed map[string]authorizationv1.SubjectRulesReviewStatus
		denied func(authorizationv1.SelfSubjectAccessReviewSpec) bool
		want   install.Rules
	}{
		"rules": {
			listed: map[string]authorizationv1.SubjectRulesReviewStatus{
				noNamespace: {NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}}},
				"system":    {ResourceRules: []authorizationv1.ResourceRule{anyPod}},
			},
			want: install.Rules{
				"":       {{NonResourceURLs: []string{"/healthz"}, Verbs: []string{"get"}}},
				"system": {{APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}, Verbs: []string{"*"}}},
			},
		},
		"incomplete rules, all allowed": {
			listed: map[string]authorizationv1.SubjectRulesReviewStatus{"system": {Incomplete: true}},
			denied: func(authorizationv1.SelfSubjectAccessReviewSpec) bool { return false },
			want: install.Rules{
				"": {
					{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
					{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"get"}},
					{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
				},
				"system": {
					{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"leader"}, Verbs: []string{"get"}},
					{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"leader"}, Verbs: []string{"update"}},
				},
			},
		},
		"incomplete rules, some denied": {
			listed: map[string]authorizationv1.SubjectRulesReviewStatus{"system": {Incomplete: true, ResourceRules: []authorizationv1.ResourceRule{anyPod}}},
			denied: func(spec authorizationv1.SelfSubjectAccessReviewSpec) bool {
				r := spec.ResourceAttributes
				return r == nil || r.Subresource == "status" || r.Namespace == "system" && r.Group == "coordination.k8s.io" && r.Name == "leader" && r.Verb == "update"
			},
			want: install.Rules{
				"":       {{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
				"system": {{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"leader"}, Verbs: []string{"get"}}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			client.PrependReactor("create", "selfsubjectrulesreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectRulesReview).DeepCopy()
				review.Status = test.listed[review.Spec.Namespace]
				return true, review, nil
			})
			client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
				review.Status.Allowed = !test.denied(review.Spec)
				return true, review, nil
			})
			got, err := review(t.Context(), client.AuthorizationV1(), need)
			if err != nil {
				t.Fatal(err)
			}
			anyOrder := cmpopts.SortSlices(func(a, b rbacv1.PolicyRule) bool { return a.String() < b.String() })
			if diff := cmp.Diff(test.want, got, anyOrder); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReviewAs: a user that is impersonated itself impersonates no other.
func TestReviewAs(t *testing.T) {
	t.Parallel()
	for user, wantErr := range map[string]bool{"": true, "jane": false} {
		flags := genericclioptions.NewConfigFlags(false)
		*flags.KubeConfig, *flags.APIServer, *flags.Impersonate = file(t, "kubeconfig", ""), "https://127.0.0.1:1", user
		_, err := (&cluster{ConfigFlags: flags}).reviewRights(t.Context(), map[string]install.Rules{"component": {"": nil}})
		if (err != nil) != wantErr {
			t.Errorf("as %q: error %v, want one: %t", user, err, wantErr)
		}
	}
}
