// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// manifests are the objects of the demo, as a user would apply them.
//
//go:embed manifests/*.yaml
var manifests embed.FS

// load reads a file of manifests.
func load(name string) ([]runtime.Object, error) {
	data, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return nil, err
	}
	list, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

// decode reads YAML documents of known kinds. Unknown and repeated fields are
// errors.
func decode(data []byte) ([]runtime.Object, error) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var list []runtime.Object
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, object)
	}
}

// split takes the objects of one type out of a list.
func split[T runtime.Object](list []runtime.Object) (of []T, rest []runtime.Object) {
	for _, object := range list {
		if typed, ok := object.(T); ok {
			of = append(of, typed)
		} else {
			rest = append(rest, object)
		}
	}
	return of, rest
}

// objects creates objects of any kind.
type objects struct{ client dynamic.Interface }

func newObjects(config *rest.Config) (objects, error) {
	config.ContentType = "" // the dynamic client speaks JSON
	client, err := dynamic.NewForConfig(config)
	return objects{client}, err
}

// createAll creates objects in order.
func (o objects) createAll(ctx context.Context, list []runtime.Object) error {
	for _, object := range list {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{Object: content}
		// The kinds of the demo all have regular plurals.
		resource, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
		target := dynamic.ResourceInterface(o.client.Resource(resource))
		if namespace := u.GetNamespace(); namespace != "" {
			target = o.client.Resource(resource).Namespace(namespace)
		}
		if _, err := target.Create(ctx, u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			return fmt.Errorf("create %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// apply creates everything in a file of manifests: volumes first, and the rest
// once those are known to be Available.
func (d *demo) apply(ctx context.Context, name string) error {
	list, err := load(name)
	if err != nil {
		return err
	}
	return d.createAll(ctx, list)
}

func (d *demo) createAll(ctx context.Context, list []runtime.Object) error {
	volumes, rest := split[*v1.PersistentVolume](list)
	for _, pv := range volumes {
		if err := d.objects.createAll(ctx, []runtime.Object{pv}); err != nil {
			return err
		}
	}
	for _, pv := range volumes {
		if err := d.watch.available(ctx, pv.Name); err != nil {
			return err
		}
	}
	return d.objects.createAll(ctx, rest)
}
