// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// object is one that is installed.
type object = *unstructured.Unstructured

// parse reads YAML documents; a duplicate key is an error.
func parse(t *testing.T, text string) []object {
	t.Helper()
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	var objects []object
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
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

// resource is the client of an object.
func resource(client dynamic.Interface, o object) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if space := o.GetNamespace(); space != "" {
		return client.Resource(plural).Namespace(space)
	}
	return client.Resource(plural)
}

// apply is kubectl apply --server-side, in which unknown fields are errors.
func apply(ctx context.Context, client dynamic.Interface, o object, dryRun ...string) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	force := true
	_, err = resource(client, o).Patch(ctx, o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		DryRun: dryRun, FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict, Force: &force,
	})
	if err != nil {
		return fmt.Errorf("apply %s: %w", name(o), err)
	}
	return nil
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
