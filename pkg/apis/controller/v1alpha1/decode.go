// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	"stowage.dev/stowage/pkg/apis/component"
)

// Decode turns the content of a configuration file into a defaulted and valid configuration;
// see component.Decode.
func Decode(data []byte) (*ControllerConfiguration, error) {
	return component.Decode[ControllerConfiguration](data, SchemeGroupVersion)
}

// Default returns the configuration that is used without a file.
func Default() (*ControllerConfiguration, error) {
	c := &ControllerConfiguration{}
	c.SetDefaults()
	return c, nil
}

// SetDefaults fills every field that the user left out with the default that
// docs/controller-configuration.md has; afterwards no pointer is nil.
func (c *ControllerConfiguration) SetDefaults() {
	component.Default(&c.HealthAddress, new(":8080"))
	component.Default(&c.NodeLoss.Policy, NodeLossKeep)
	component.Default(&c.NodeLoss.Delay.Duration, 5*time.Minute)
	component.Default(&c.NodeLoss.OutOfService, OutOfServiceIgnore)
	component.Default(&c.NodeLoss.ReleasesPerMinute, new(int32(10)))
	component.Default(&c.OrphanCleans.PerHour, new(int32(10)))
	c.ClientConnection.SetDefaults(50, 100)
	c.LeaderElection.SetDefaults(true, "stowage-system", "stowage-controller")
}
