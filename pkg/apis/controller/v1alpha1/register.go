// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"stowage.dev/stowage/pkg/apis/controller"
)

// SchemeGroupVersion is the group and version that users write.
var SchemeGroupVersion = schema.GroupVersion{Group: controller.GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects the functions that add the versioned type, its
	// defaults and its conversions.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes, RegisterDefaults)
	// localSchemeBuilder is the name under which generated code registers its
	// conversions.
	localSchemeBuilder = &SchemeBuilder
	// AddToScheme adds the versioned type with defaults and conversions to a
	// scheme, which also needs the internal type.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &ControllerConfiguration{})
	return nil
}
