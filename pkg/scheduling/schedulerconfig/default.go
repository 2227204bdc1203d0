// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulerconfig

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	_ "stowage.dev/stowage/pkg/apis/config/scheme" // the arguments of VolumeTopology
	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/apis/wellknown"
)

// Name is that of stowage-scheduler, its default profile and its default lease.
const Name = "stowage-scheduler"

// Client limits of the configuration without a file. A pod with claims takes several
// writes; kube-scheduler's 50 queries a second would be the bottleneck. The API server is
// protected by its priority and fairness.
const (
	DefaultQPS   = 1000
	DefaultBurst = 2000
	// lowQPS is the limit below which a warning is logged: some 30 pods with a claim a
	// second.
	lowQPS = 200
)

// Default is the configuration of a second scheduler, as in manifests/scheduler:
// one profile with VolumeTopology instead of VolumeBinding, and a separate lease.
func Default() *config.KubeSchedulerConfiguration {
	versioned := &schedulerv1.KubeSchedulerConfiguration{
		DebuggingConfiguration: *componentbaseconfigv1alpha1.NewRecommendedDebuggingConfiguration(),
		Profiles: []schedulerv1.KubeSchedulerProfile{{
			SchedulerName: new(Name),
			Plugins: &schedulerv1.Plugins{
				MultiPoint: schedulerv1.PluginSet{
					Enabled:  []schedulerv1.Plugin{{Name: configv1.PluginName}},
					Disabled: []schedulerv1.Plugin{{Name: names.VolumeBinding}},
				},
				// Otherwise VolumeZone would reject unusable claims first, without naming
				// what is missing.
				PreFilter: schedulerv1.PluginSet{Enabled: []schedulerv1.Plugin{{Name: configv1.PluginName}}},
				// Before DefaultPreemption, which would evict more pods while the volumes
				// of the first ones are becoming available.
				PostFilter: schedulerv1.PluginSet{Enabled: []schedulerv1.Plugin{{Name: configv1.PluginName}}},
			},
			PluginConfig: []schedulerv1.PluginConfig{{
				Name: names.NodeResourcesFit,
				Args: runtime.RawExtension{Object: &schedulerv1.NodeResourcesFitArgs{IgnoredResources: []string{wellknown.VolumesResource}}},
			}},
		}},
	}
	versioned.LeaderElection.ResourceName = Name
	versioned.ClientConnection.QPS = DefaultQPS
	versioned.ClientConnection.Burst = DefaultBurst

	return internal(versioned)
}

// internal sets the defaults of a configuration and converts it.
func internal(versioned *schedulerv1.KubeSchedulerConfiguration) *config.KubeSchedulerConfiguration {
	schedulerscheme.Scheme.Default(versioned)
	converted := &config.KubeSchedulerConfiguration{}
	// The types are compiled in: conversion can fail only by a programming error.
	utilruntime.Must(schedulerscheme.Scheme.Convert(versioned, converted, nil))
	// Conversion clears it; --write-config-to and plugins read it.
	converted.APIVersion = schedulerv1.SchemeGroupVersion.String()
	return converted
}

// Stock returns the configuration that kube-scheduler runs without a file.
func Stock() *config.KubeSchedulerConfiguration {
	versioned := &schedulerv1.KubeSchedulerConfiguration{DebuggingConfiguration: *componentbaseconfigv1alpha1.NewRecommendedDebuggingConfiguration()}
	return internal(versioned)
}

// Decode decodes a KubeSchedulerConfiguration and sets its defaults. The error names what is invalid.
func Decode(text []byte) (*config.KubeSchedulerConfiguration, error) {
	object, gvk, err := schedulerscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	decoded, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("kind is %s, and must be KubeSchedulerConfiguration", gvk.Kind)
	}
	decoded.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(decoded); err != nil {
		return nil, err
	}
	if err := Check(decoded.Profiles); err != nil {
		return nil, err
	}
	OrderPostFilter(decoded.Profiles)
	return decoded, nil
}
