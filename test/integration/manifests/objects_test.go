// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// object is one that is installed.
type object = *unstructured.Unstructured

// parse reads YAML documents; a duplicate key is an error.
func parse(t *testing.T, text string) []object {
	t.Helper()
	objects, err := cluster.Objects([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// name identifies an object, in messages too.
func name(o object) string {
	return strings.TrimPrefix(o.GetNamespace()+"/", "/") + o.GetKind() + " " + o.GetName()
}

// byName makes a map of objects that are each there once.
func byName(t *testing.T, objects []object) map[string]object {
	t.Helper()
	found := map[string]object{}
	for _, o := range objects {
		if found[name(o)] != nil {
			t.Errorf("%s is duplicated", name(o))
		}
		found[name(o)] = o
	}
	return found
}

// served reports whether the tests' API server has the object's kind: not that of OpenShift, and
// before Kubernetes 1.36 no policies of the shipped version.
func served(o object) bool {
	policy := strings.HasPrefix(o.GetKind(), "MutatingAdmissionPolicy")
	return o.GetKind() != "SecurityContextConstraints" && (!policy || o.GetAPIVersion() == fixture.PolicyVersion())
}

// as converts an object.
func as[T any](t *testing.T, o object) *T {
	t.Helper()
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
		t.Fatalf("%s: %v", name(o), err)
	}
	return &typed
}
