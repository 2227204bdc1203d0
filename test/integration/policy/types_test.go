// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTypes: no expression of a policy uses a field that does not exist, or
// compares values that cannot be equal. Such an expression would refuse all requests, or
// be true of all.
func TestTypes(t *testing.T) {
	t.Parallel()
	policies, err := bed.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := bed.admin.dynamic.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"))
	for _, policy := range policies.Items {
		t.Run(policy.Name, func(t *testing.T) {
			t.Parallel()
			err := untilIs(t.Context(), client, policy.Name, func(o *unstructured.Unstructured) bool {
				seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
				return seen == o.GetGeneration()
			})
			if err != nil {
				t.Fatal(err)
			}
			checked, err := bed.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), policy.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if checked.Status.TypeChecking == nil {
				t.Fatal("types were not checked")
			}
			for _, warning := range checked.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s", warning.FieldRef, warning.Warning)
			}
		})
	}
}
