// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/inspect/snapshot"
)

const (
	schedulerUser = "system:serviceaccount:kube-system:stowage-scheduler"
	extenderUser  = "system:serviceaccount:kube-system:stowage-extender"
	csiUser       = "system:serviceaccount:stowage-system:stowage-csi"
)

// TestReviewed: what the API server says about the rights of a user counts, and roles about those of other users.
func TestReviewed(t *testing.T) {
	t.Parallel()
	const (
		election = "RoleBinding kube-system/stowage-scheduler-leader-election"
		lacks    = "Problem scheduler rights: ServiceAccount kube-system/stowage-scheduler lacks 1 right"
		lease    = ": get,update leases.coordination.k8s.io named stowage-scheduler in namespace kube-system"
		unread   = "rights: could not be checked: roles, rolebindings, clusterroles and clusterrolebindings could not be read"
	)
	withoutLease := func(_ site, reviewed map[string]Rules) {
		reviewed[schedulerUser][metav1.NamespaceSystem] = slices.DeleteFunc(reviewed[schedulerUser][metav1.NamespaceSystem], func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.ResourceNames, "stowage-scheduler")
		})
	}
	for name, test := range map[string]struct {
		// change changes the site, and the rights by user, which are those that are needed.
		change func(s site, reviewed map[string]Rules)
		gaps   []string
		want   []string
	}{
		"all rights":                 {change: func(site, map[string]Rules) {}},
		"a right that no role gives": {change: func(s site, _ map[string]Rules) { delete(s, election) }},
		"a right that was removed": {
			change: func(s site, reviewed map[string]Rules) { delete(s, election); withoutLease(s, reviewed) },
			want:   []string{lacks + lease},
		},
		"a right that is denied": {change: withoutLease, want: []string{lacks + " that roles give it" + lease}},
		"a right of the namespace that is needed in the cluster": {
			change: func(_ site, reviewed map[string]Rules) {
				rights := reviewed[csiUser]
				rights[namespaceOwn], rights[""] = rights[""], nil
			},
			want: []string{"Problem csi rights: ServiceAccount stowage-system/stowage-csi lacks 2 rights that roles give it: " +
				"get,list,watch,create,update,delete pavstagings.stowage.dev and list,watch pavprovisioners.stowage.dev"},
		},
		"a user that may not be impersonated": {
			change: func(s site, reviewed map[string]Rules) { delete(s, election); delete(reviewed, schedulerUser) },
			want:   []string{lacks + lease},
		},
		"bindings cannot be read": {
			change: func(s site, reviewed map[string]Rules) {
				delete(s, "ClusterRoleBinding stowage-scheduler")
				delete(s, "ClusterRoleBinding stowage-extender")
				delete(reviewed, extenderUser)
			},
			gaps: []string{"clusterrolebindings.rbac.authorization.k8s.io"},
			want: []string{"Unknown extender " + unread},
		},
		// Which rights the roles of Kubernetes have is not known.
		"roles cannot be read": {
			change: func(s site, _ map[string]Rules) { delete(s, "ClusterRole system:volume-scheduler") },
			gaps:   []string{"clusterroles.rbac.authorization.k8s.io"},
			want:   []string{"Unknown scheduler " + unread},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			reviewed := Reviews(s.snapshot())
			test.change(s, reviewed)
			in := s.snapshot()
			for _, gap := range test.gaps {
				in.Gaps = append(in.Gaps, snapshot.Gap{Resource: gap, Reason: "forbidden"})
			}
			status := Assess(in, reviewed)
			checkAdvice(t, status)
			if diff := cmp.Diff(test.want, faults(status)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
