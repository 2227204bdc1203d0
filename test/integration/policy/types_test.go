// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// TestTypes: no expression of a policy uses a field that does not exist, or
// compares values that cannot be equal. Such an expression would refuse all requests, or
// be true of all.
func TestTypes(t *testing.T) {
	t.Parallel()
	policies, err := shared.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range policies.Items {
		t.Run(policy.Name, func(t *testing.T) {
			t.Parallel()
			checked := typeChecked(t, policy.Name)
			if checked.Status.TypeChecking == nil {
				t.Fatal("types were not checked")
			}
			for _, warning := range checked.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s", warning.FieldRef, warning.Warning)
			}
		})
	}
}

// typeChecked waits until the controller has checked the policy, and returns it.
func typeChecked(t *testing.T, name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	lw := cache.NewListWatchFromClient(shared.admin.AdmissionregistrationV1().RESTClient(), "validatingadmissionpolicies",
		metav1.NamespaceNone, fields.OneTermEqualSelector(metav1.ObjectNameField, name))
	var policy *admissionregistrationv1.ValidatingAdmissionPolicy
	_, err := watchtools.UntilWithSync(ctx, lw, &admissionregistrationv1.ValidatingAdmissionPolicy{}, nil, func(e watch.Event) (ok bool, err error) {
		policy, ok = e.Object.(*admissionregistrationv1.ValidatingAdmissionPolicy)
		return ok && policy.Status.ObservedGeneration == policy.Generation, nil
	})
	if err != nil {
		t.Fatalf("wait until the types of policy %s are checked: %v", name, err)
	}
	return policy
}
