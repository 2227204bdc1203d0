// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// CreateFiles creates, as an administrator, the objects that YAML files
// describe, in order. What exists already is left as it is. Kinds must have
// regular plurals.
func (c *Cluster) CreateFiles(ctx context.Context, paths ...string) error {
	client, err := dynamic.NewForConfigAndClient(c.RESTConfig(), c.http)
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := createAll(ctx, client, data); err != nil {
			return fmt.Errorf("create what %s describes: %w", path, err)
		}
	}
	return nil
}

// Objects reads the objects that YAML documents describe; a duplicate key is an error.
func Objects(data []byte) ([]*unstructured.Unstructured, error) {
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var objects []*unstructured.Unstructured
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if len(object.Object) > 0 { // more than comments
			objects = append(objects, object)
		}
	}
}

func createAll(ctx context.Context, client dynamic.Interface, data []byte) error {
	objects, err := Objects(data)
	if err != nil {
		return err
	}
	for _, object := range objects {
		_, err = ResourceOf(client, object).Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// ResourceOf returns the client of an object's resource. Its kind must have a regular plural.
func ResourceOf(client dynamic.Interface, object *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	if namespace := object.GetNamespace(); namespace != "" {
		return client.Resource(plural).Namespace(namespace)
	}
	return client.Resource(plural)
}

// Apply applies an object as kubectl apply --server-side does. Unknown fields are errors.
func Apply(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured, dryRun ...string) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = ResourceOf(client, object).Patch(ctx, object.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		DryRun: dryRun, FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict, Force: new(true),
	})
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
