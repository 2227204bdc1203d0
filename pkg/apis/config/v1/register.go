// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of kube-scheduler's component configuration, in
// which the framework looks for the types of plugin arguments.
const GroupName = "kubescheduler.config.k8s.io"

// SchemeGroupVersion is the group and version that users write.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}

// AddToScheme adds the arguments and their defaults to a scheme, in the version that users
// write and in the internal version.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, version := range []string{SchemeGroupVersion.Version, runtime.APIVersionInternal} {
		scheme.AddKnownTypes(schema.GroupVersion{Group: GroupName, Version: version}, &VolumeTopologyArgs{})
	}
	return RegisterDefaults(scheme)
}
