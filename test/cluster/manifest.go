// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
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

func createAll(ctx context.Context, client dynamic.Interface, data []byte) error {
	documents := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{}
		if err := yamlutil.Unmarshal(document, &object.Object); err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue // nothing but comments
		}
		plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		target := dynamic.ResourceInterface(client.Resource(plural))
		if namespace := object.GetNamespace(); namespace != "" {
			target = client.Resource(plural).Namespace(namespace)
		}
		_, err = target.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}
