// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/loop"
)

// Stale adds loop.ErrStale to errors of writes whose input is out of date.
func Stale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", loop.ErrStale, err)
	}
	return err
}

// Wrap adds what was done to an error, if there is one.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// Gone returns nil instead of an error if the object does not exist any more.
func Gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Found returns nil instead of an object that does not exist.
func Found[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// AddFinalizer returns a patch that adds a finalizer to the version of an object.
func AddFinalizer(object metav1.Object, finalizer string) ([]byte, error) {
	return Patch(object, map[string]any{"finalizers": append(slices.Clone(object.GetFinalizers()), finalizer)})
}

// RemoveFinalizer returns a patch that removes a finalizer from the version of an object.
func RemoveFinalizer(object metav1.Object, finalizer string) ([]byte, error) {
	left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == finalizer })
	return Patch(object, map[string]any{"finalizers": left})
}

// Patch returns a merge patch of the metadata of one version of an object.
func Patch(object metav1.Object, metadata map[string]any) ([]byte, error) {
	metadata["uid"], metadata["resourceVersion"] = object.GetUID(), object.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	return patch, Wrap(err, "encode a patch of %s", object.GetName())
}
