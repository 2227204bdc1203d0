// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"

	"stowage.dev/stowage/test/cluster"
)

// access is what a rule grants, or a request uses: one verb on one resource. An empty namespace
// or name stands for all.
type access struct{ verb, group, resource, namespace, name string }

func (a access) String() string {
	text := fmt.Sprintf("%s %s (API group %q)", a.verb, a.resource, a.group)
	if a.name != "" {
		text += " " + a.name
	}
	if a.namespace != "" {
		text += " in namespace " + a.namespace
	}
	return text
}

// covers reports whether a request uses the right. A watch needs the right to list too: client-go
// lists where the API server does not stream the objects.
func (a access) covers(request access) bool {
	return (request.verb == a.verb || request.verb == "watch" && a.verb == "list") &&
		request.group == a.group && request.resource == a.resource &&
		cmp.Or(a.namespace, request.namespace) == request.namespace && cmp.Or(a.name, request.name) == request.name
}

// granted returns what the Roles and ClusterRoles of a manifest grant.
func granted(manifest []byte) ([]access, error) {
	objects, err := cluster.Objects(manifest)
	if err != nil {
		return nil, err
	}
	var all []access
	for _, object := range objects {
		var role rbacv1.Role // a ClusterRole has the same rules
		if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, err
		}
		for _, rules := range role.Rules {
			for _, rule := range rbacvalidation.BreakdownRule(rules) {
				if len(rule.Resources) == 0 {
					continue // of a URL
				}
				a := access{verb: rule.Verbs[0], group: rule.APIGroups[0], resource: rule.Resources[0], namespace: role.Namespace}
				if len(rule.ResourceNames) > 0 {
					a.name = rule.ResourceNames[0]
				}
				all = append(all, a)
			}
		}
	}
	return all, nil
}

// without returns the rights that no request used.
func without(rights, requests []access) []string {
	var unused []string
	for _, right := range rights {
		if !slices.ContainsFunc(requests, right.covers) {
			unused = append(unused, right.String())
		}
	}
	return unused
}
