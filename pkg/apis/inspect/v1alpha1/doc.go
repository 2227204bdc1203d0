// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is what kubectl stowage prints with -o json and -o yaml, as inspect.stowage.dev/v1alpha1.
// Fields are added, not renamed or removed, while the version stays.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion is that of all kinds.
const APIVersion = "inspect.stowage.dev/v1alpha1"

// Type returns the type of a kind.
func Type(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: APIVersion, Kind: kind} }
