// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRights: the roles grant the provisioner's requests, and no others that
// the policies do not restrict.
func TestRights(t *testing.T) {
	t.Parallel()
	// verb, resource.group/subresource, name, namespace; "-" for none.
	tests := map[string]bool{
		"list persistentvolumes - -":                                           true,
		"watch persistentvolumes - -":                                          true,
		"update persistentvolumes pv -":                                        true,
		"watch storageclasses.storage.k8s.io - -":                              true,
		"get nodes alpha -":                                                    true,
		"get namespaces kube-system -":                                         true,
		"patch nodes alpha -":                                                  true, // startup-taint/rbac.yaml
		"get configmaps stowage-provisioner-nodes stowage-system":              true,
		"create events - default":                                              true,
		"patch events.events.k8s.io - default":                                 true,
		"get localdiskreports.stowage.dev alpha -":                             true,
		"get localdisks.stowage.dev alpha.00 -":                                true,
		"create localdisks.stowage.dev - -":                                    true,
		"list localdisktombstones.stowage.dev - -":                             true,
		"update localdisks.stowage.dev/status alpha.00 -":                      true,
		"remove startuptaints.stowage.dev stowage.dev/provisioner-not-ready -": true,

		"update leases.coordination.k8s.io alpha stowage-node-lease": true,

		"update leases.coordination.k8s.io stowage-controller stowage-system":                           false,
		"delete leases.coordination.k8s.io alpha stowage-node-lease":                                    false,
		"list leases.coordination.k8s.io - stowage-node-lease":                                          false,
		"remove startuptaints.stowage.dev node.kubernetes.io/unreachable -":                             false,
		"deletecollection persistentvolumes - -":                                                        false,
		"update persistentvolumes/status pv -":                                                          false,
		"update localdiskreports.stowage.dev alpha -":                                                   false,
		"delete localdiskreports.stowage.dev alpha -":                                                   false,
		"create localdisktombstones.stowage.dev - -":                                                    false,
		"update localdisktombstones.stowage.dev any -":                                                  false,
		"delete localdisktombstones.stowage.dev any -":                                                  false,
		"list localdisks.stowage.dev - -":                                                               false,
		"update localdisks.stowage.dev alpha.00 -":                                                      false,
		"delete localdisks.stowage.dev alpha.00 -":                                                      false,
		"update nodes alpha -":                                                                          false,
		"patch nodes/status alpha -":                                                                    false,
		"delete nodes alpha -":                                                                          false,
		"update storageclasses.storage.k8s.io local-disks -":                                            false,
		"get configmaps stowage-provisioner stowage-system":                                             false,
		"update configmaps stowage-provisioner-nodes stowage-system":                                    false,
		"list configmaps - stowage-system":                                                              false,
		"get secrets any stowage-system":                                                                false,
		"create pods - stowage-system":                                                                  false,
		"create jobs.batch - stowage-system":                                                            false,
		"create serviceaccounts/token stowage-provisioner stowage-system":                               false,
		"update persistentvolumeclaims any default":                                                     false,
		"get namespaces default -":                                                                      false,
		"list namespaces - -":                                                                           false,
		"create events - kube-system":                                                                   false,
		"update validatingadmissionpolicies.admissionregistration.k8s.io stowage-provisioner-volumes -": false,
	}
	for what, want := range tests {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + namespace + ":" + account,
				Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
				ResourceAttributes: attributes(what),
			}}
			answer, err := shared.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Status.Allowed != want {
				t.Errorf("allowed: %v, want %v", answer.Status.Allowed, want)
			}
		})
	}
}

// attributes reads a line of TestRights.
func attributes(line string) *authorizationv1.ResourceAttributes {
	words := strings.Fields(line)
	resource, sub, _ := strings.Cut(words[1], "/")
	resource, group, _ := strings.Cut(resource, ".")
	none := func(word string) string { return strings.TrimPrefix(word, "-") }
	return &authorizationv1.ResourceAttributes{
		Verb: words[0], Resource: resource, Group: group, Subresource: sub,
		Name: none(words[2]), Namespace: none(words[3]),
	}
}
