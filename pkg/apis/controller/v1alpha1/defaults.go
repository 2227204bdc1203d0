// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults, as users see them in docs/controller-configuration.md.
const (
	defaultHealthAddress           = ":8080"
	defaultDelay                   = 5 * time.Minute
	defaultReleasesPerMinute int32 = 10
	defaultCleansPerHour     int32 = 10

	defaultQPS   int32 = 50
	defaultBurst int32 = 100

	defaultLeaseNamespace = "stowage-system"
	defaultLeaseName      = "stowage-controller"
	defaultLeaseDuration  = 15 * time.Second
	defaultRenewDeadline  = 10 * time.Second
	defaultRetryPeriod    = 2 * time.Second
)

// setDefaults fills every field that the user left out; afterwards no pointer is nil.
func setDefaults(obj *ControllerConfiguration) {
	setPointer(&obj.HealthAddress, defaultHealthAddress)
	loss := &obj.NodeLoss
	setDefault(&loss.Policy, NodeLossKeep)
	setDuration(&loss.Delay, defaultDelay)
	setDefault(&loss.OutOfService, OutOfServiceIgnore)
	setPointer(&loss.ReleasesPerMinute, defaultReleasesPerMinute)
	setPointer(&obj.OrphanCleans.PerHour, defaultCleansPerHour)
	setPointer(&obj.ClientConnection.QPS, defaultQPS)
	setPointer(&obj.ClientConnection.Burst, defaultBurst)
	election := &obj.LeaderElection
	setPointer(&election.LeaderElect, true)
	setDefault(&election.ResourceNamespace, defaultLeaseNamespace)
	setDefault(&election.ResourceName, defaultLeaseName)
	setDuration(&election.LeaseDuration, defaultLeaseDuration)
	setDuration(&election.RenewDeadline, defaultRenewDeadline)
	setDuration(&election.RetryPeriod, defaultRetryPeriod)
}

func setDefault[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}

func setPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setDuration(field *metav1.Duration, value time.Duration) {
	if field.Duration == 0 {
		field.Duration = value
	}
}
