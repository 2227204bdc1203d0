// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const roles = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: all}
rules:
- {apiGroups: ["", apps], resources: [pods, pods/log], verbs: [get, list]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: us, namespace: ours}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: one, namespace: ours}
rules:
- {apiGroups: [""], resources: [configmaps], resourceNames: [a, b], verbs: [get]}
- {apiGroups: [""], resources: [secrets], verbs: [list, watch]}
`

const log = `{"verb":"list","user":{"username":"us"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}
{"verb":"get","user":{"username":"us"},"objectRef":{"resource":"pods","namespace":"x","name":"p"},"responseStatus":{"code":404}}
{"verb":"get","user":{"username":"us"},"objectRef":{"resource":"pods","subresource":"log","namespace":"x","name":"p"},"responseStatus":{"code":403}}
{"verb":"get","user":{"username":"them"},"objectRef":{"resource":"pods","apiGroup":"apps","name":"p"},"responseStatus":{"code":200}}
{"verb":"watch","user":{"username":"us"},"objectRef":{"resource":"secrets","namespace":"ours"},"responseStatus":{"code":200}}
{"verb":"get","user":{"username":"us"},"objectRef":{"resource":"configmaps","namespace":"ours","name":"a"},"responseStatus":{"code":200}}
{"verb":"get","user":{"username":"us"},"objectRef":{"resource":"configmaps","namespace":"other","name":"b"},"responseStatus":{"code":200}}
{"verb":"get","user":{"username":"us"},"objectRef":{"resource":"pods","apiGroup":"apps"`

// TestUnused: a right is used by a request of the user for what it grants, unless that was
// forbidden.
func TestUnused(t *testing.T) {
	t.Parallel()
	rights, err := granted([]byte(roles))
	if err != nil {
		t.Fatal(err)
	}
	requests, err := read(strings.NewReader(log), "us")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`get pods/log (API group "")`, `list pods/log (API group "")`,
		`get pods (API group "apps")`, `list pods (API group "apps")`,
		`get pods/log (API group "apps")`, `list pods/log (API group "apps")`,
		`get configmaps (API group "") b in namespace ours`,
	}
	if diff := cmp.Diff(want, without(rights, requests)); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
}
