// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// pageSize is how many objects are requested at a time.
const pageSize = 500

// each calls f for every object that list lists, page by page: what f does not keep
// is not held for longer than its page.
func each[T any, L runtime.Object](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions, f func(*T)) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	})
	pages.PageSize = pageSize
	return pages.EachListItemWithAlloc(ctx, options, func(object runtime.Object) error {
		item, ok := object.(any).(*T)
		if !ok {
			return fmt.Errorf("the list has a %T", object)
		}
		f(item)
		return nil
	})
}
