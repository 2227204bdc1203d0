// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	"stowage.dev/stowage/pkg/apis/component"
	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

// Decode turns the content of a configuration file into a defaulted and valid configuration;
// see component.Decode.
func Decode(data []byte) (*ExtenderConfiguration, error) {
	return component.Decode[ExtenderConfiguration](data, SchemeGroupVersion)
}

// SetDefaults fills every field that the user left out with the default that
// docs/extender-configuration.md has; afterwards no pointer is nil.
func (c *ExtenderConfiguration) SetDefaults() {
	component.Default(&c.Mode, ModeFull)
	advisory := c.Mode == ModeAdvisory
	component.Default(&c.Serving.Address, ":8443")
	component.Default(&c.Serving.MaxBodyBytes, new(int64(8<<20)))
	component.Default(&c.HealthAddress, new(":8080"))
	component.Default(&c.Timeouts.Verb.Duration, 8*time.Second)
	hold := 10 * time.Minute
	if advisory {
		hold = 30 * time.Second
	}
	component.Default(&c.Timeouts.Hold.Duration, hold)
	args := configv1.VolumeTopologyArgs{BindingMode: c.BindingMode, Scoring: c.Scoring}
	configv1.SetDefaults_VolumeTopologyArgs(&args)
	c.BindingMode, c.Scoring = args.BindingMode, args.Scoring
	c.ClientConnection.SetDefaults(1000, 2000)
	c.LeaderElection.SetDefaults(!advisory, "kube-system", "stowage-extender")
}
