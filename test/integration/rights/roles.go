// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// right is one verb on one resource, perhaps of one name. A Role's has a namespace.
type right struct{ verb, group, resource, namespace, name string }

// String formats the right for a reader of the manifest.
func (r right) String() string {
	text := fmt.Sprintf("%s %s (API group %q)", r.verb, r.resource, r.group)
	if r.name != "" {
		text += " " + r.name
	}
	if r.namespace != "" {
		text += " in namespace " + r.namespace
	}
	return text
}

// rightsOf are those of the Roles and ClusterRoles of a manifest.
func rightsOf(manifest []byte) ([]right, error) {
	var rights []right
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var role rbacv1.Role // a ClusterRole has the same rules
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			return rights, nil
		}
		if err != nil {
			return nil, err
		}
		if role.Kind != "Role" && role.Kind != "ClusterRole" {
			continue
		}
		for i := range role.Rules {
			rights = append(rights, apart(&role.Rules[i], role.Namespace)...)
		}
	}
}

// apart takes a rule apart.
func apart(rule *rbacv1.PolicyRule, namespace string) []right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					rights = append(rights, right{verb, group, resource, namespace, name})
				}
			}
		}
	}
	return rights
}

// without are the rights that no request needed. A watch needs the right to list
// too: client-go lists where the API server does not stream the objects.
func without(rights []right, asked []request) []string {
	var unused []string
	for _, r := range rights {
		used := slices.ContainsFunc(asked, func(q request) bool {
			return (q.verb == r.verb || q.verb == "watch" && r.verb == "list") && q.group == r.group && q.resource == r.resource &&
				(r.namespace == "" || r.namespace == q.namespace) && (r.name == "" || r.name == q.name)
		})
		if !used {
			unused = append(unused, r.String())
		}
	}
	return unused
}
