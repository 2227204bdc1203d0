// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Defaults, as users see them in docs/configuration.md.
const (
	defaultBindTimeoutSeconds  int64 = 600
	defaultStaticWeightPercent int32 = 50
)

// SetDefaults_VolumeTopologyArgs sets every field that the user left out. Called
// through the scheme; the name is what defaulter-gen looks for.
func SetDefaults_VolumeTopologyArgs(obj *VolumeTopologyArgs) { //nolint:revive // defaulter-gen prescribes the name
	if obj.BindTimeoutSeconds == nil {
		obj.BindTimeoutSeconds = new(defaultBindTimeoutSeconds)
	}
	if obj.BindingMode == "" {
		obj.BindingMode = BindingModeDirect
	}
	if obj.Scoring.Strategy == "" {
		obj.Scoring.Strategy = ScoringBestFit
	}
	if obj.Scoring.StaticWeightPercent == nil {
		obj.Scoring.StaticWeightPercent = new(defaultStaticWeightPercent)
	}
}
