// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// crdFile has the kind LocalDiskReport.
const crdFile = manifests + "/../crd/stowage.dev_localdiskreports.yaml"

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// applyCRD makes LocalDiskReports known, and returns when they are served.
func (b *testbed) applyCRD(ctx context.Context) error {
	if err := b.cluster.CreateFiles(ctx, crdFile); err != nil {
		return err
	}
	return untilIs(ctx, b.admin.dynamic.Resource(crdResource), "localdiskreports.stowage.dev", func(o *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == "Established" && condition["status"] == string(metav1.ConditionTrue)
		})
	})
}

// untilIs watches the object of this name until is accepts it.
func untilIs(ctx context.Context, client dynamic.ResourceInterface, name string, is func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return client.Watch(ctx, o)
		},
	}
	_, err := watchtools.UntilWithSync(ctx, lw, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		object, ok := e.Object.(*unstructured.Unstructured)
		return ok && e.Type != watch.Deleted && is(object), nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", name, err)
	}
	return nil
}
