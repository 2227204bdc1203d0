// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const controllerSubsystem = "controller"

var (
	controllerLeading = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: namespace, Subsystem: controllerSubsystem, Name: "leading",
		Help:           "1 while this replica leads and works, 0 while it stands by.",
		StabilityLevel: metrics.ALPHA,
	})

	registerController sync.Once
)

// RegisterController makes the controller's metrics known.
func RegisterController() {
	registerController.Do(func() { legacyregistry.MustRegister(controllerLeading) })
}

// SetControllerLeading records whether this replica leads.
func SetControllerLeading(leading bool) {
	value := 0.0
	if leading {
		value = 1
	}
	controllerLeading.Set(value)
}
