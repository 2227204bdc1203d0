// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/conversion"

	"stowage.dev/stowage/pkg/apis/config"
	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

// Convert_v1_VolumeScoring_To_config_VolumeScoring converts the type that is
// shared with VolumeTopologyArgs. conversion-gen looks for it here.
func Convert_v1_VolumeScoring_To_config_VolumeScoring(in *configv1.VolumeScoring, out *config.VolumeScoring, s conversion.Scope) error { //nolint:revive // conversion-gen prescribes the name
	return configv1.Convert_v1_VolumeScoring_To_config_VolumeScoring(in, out, s)
}

// Convert_config_VolumeScoring_To_v1_VolumeScoring is the way back.
func Convert_config_VolumeScoring_To_v1_VolumeScoring(in *config.VolumeScoring, out *configv1.VolumeScoring, s conversion.Scope) error { //nolint:revive // conversion-gen prescribes the name
	return configv1.Convert_config_VolumeScoring_To_v1_VolumeScoring(in, out, s)
}
