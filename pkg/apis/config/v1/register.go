// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"stowage.dev/stowage/pkg/apis/config"
)

// SchemeGroupVersion is the group and version that users write.
var SchemeGroupVersion = schema.GroupVersion{Group: config.GroupName, Version: "v1"}

var (
	// SchemeBuilder collects the functions that add the versioned types, their
	// defaults and their conversions.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes, RegisterDefaults)
	// localSchemeBuilder is the name under which generated code registers its
	// conversions.
	localSchemeBuilder = &SchemeBuilder
	// AddToScheme adds the versioned types with defaults and conversions to a
	// scheme, which also needs the internal types (config.AddToScheme).
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &VolumeTopologyArgs{})
	return nil
}
