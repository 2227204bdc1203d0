// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheme makes kube-scheduler's configuration machinery know Stowage's
// plugin arguments: importing it is enough. Arguments of VolumeTopology are then
// decoded strictly, defaulted, and written out again (configz,
// --write-config-to) like those of kube-scheduler's own plugins. The plugin finds
// its type by name: profiles[].pluginConfig[].name with "Args" added.
package scheme

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

func init() {
	// The first scheme decodes and encodes configuration files; the second
	// defaults and converts the arguments nested in them.
	utilruntime.Must(configv1.AddToScheme(schedulerscheme.Scheme))
	utilruntime.Must(configv1.AddToScheme(schedulerv1.GetPluginArgConversionScheme()))
}
