// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the objects.
const GroupName = "stowage.dev"

// SchemeGroupVersion is the group and version of the objects.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects the functions that add the types.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme adds the types to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource qualifies the plural name of a resource, such as "localdiskreports".
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&LocalDiskReport{}, &LocalDiskReportList{},
		&LocalDisk{}, &LocalDiskList{},
		&LocalDiskTombstone{}, &LocalDiskTombstoneList{},
		&PavProvisioner{}, &PavProvisionerList{},
		&PavVolume{}, &PavVolumeList{},
		&PavStaging{}, &PavStagingList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
