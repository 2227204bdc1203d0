// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of the configuration file.
var SchemeGroupVersion = schema.GroupVersion{Group: "extender.config.stowage.dev", Version: "v1alpha1"}

// AddToScheme adds the configuration to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &ExtenderConfiguration{})
	return nil
}
