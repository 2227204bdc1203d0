// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/conversion"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/apis/extender"
)

// Convert_v1alpha1_ExtenderConfiguration_To_extender_ExtenderConfiguration converts
// scoring, whose type is that of VolumeTopologyArgs, besides what is generated.
func Convert_v1alpha1_ExtenderConfiguration_To_extender_ExtenderConfiguration(in *ExtenderConfiguration, out *extender.ExtenderConfiguration, s conversion.Scope) error { //nolint:revive // conversion-gen prescribes the name
	if err := autoConvert_v1alpha1_ExtenderConfiguration_To_extender_ExtenderConfiguration(in, out, s); err != nil {
		return err
	}
	return configv1.Convert_v1_VolumeScoring_To_config_VolumeScoring(&in.Scoring, &out.Scoring, s)
}

// Convert_extender_ExtenderConfiguration_To_v1alpha1_ExtenderConfiguration is the
// way back.
func Convert_extender_ExtenderConfiguration_To_v1alpha1_ExtenderConfiguration(in *extender.ExtenderConfiguration, out *ExtenderConfiguration, s conversion.Scope) error { //nolint:revive // conversion-gen prescribes the name
	if err := autoConvert_extender_ExtenderConfiguration_To_v1alpha1_ExtenderConfiguration(in, out, s); err != nil {
		return err
	}
	return configv1.Convert_config_VolumeScoring_To_v1_VolumeScoring(&in.Scoring, &out.Scoring, s)
}
