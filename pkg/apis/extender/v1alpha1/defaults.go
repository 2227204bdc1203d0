// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

// Defaults, as users see them in docs/extender-configuration.md.
const (
	defaultAddress             = ":8443"
	defaultHealthAddress       = ":8080"
	defaultMaxBodyBytes  int64 = 8 << 20

	defaultVerbTimeout  = 8 * time.Second
	defaultHold         = 10 * time.Minute
	defaultAdvisoryHold = 30 * time.Second

	defaultQPS   int32 = 1000
	defaultBurst int32 = 2000

	defaultLeaseNamespace = "kube-system"
	defaultLeaseName      = "stowage-extender"
	defaultLeaseDuration  = 15 * time.Second
	defaultRenewDeadline  = 10 * time.Second
	defaultRetryPeriod    = 2 * time.Second
)

// setDefaults fills every field that the user left out; afterwards no pointer is nil.
func setDefaults(obj *ExtenderConfiguration) {
	setDefault(&obj.Mode, ModeFull)
	advisory := obj.Mode == ModeAdvisory
	setDefault(&obj.Serving.Address, defaultAddress)
	setPointer(&obj.Serving.MaxBodyBytes, defaultMaxBodyBytes)
	setPointer(&obj.HealthAddress, defaultHealthAddress)
	setDuration(&obj.Timeouts.Verb, defaultVerbTimeout)
	if advisory {
		setDuration(&obj.Timeouts.Hold, defaultAdvisoryHold)
	}
	setDuration(&obj.Timeouts.Hold, defaultHold)
	setScoring(obj)
	setPointer(&obj.ClientConnection.QPS, defaultQPS)
	setPointer(&obj.ClientConnection.Burst, defaultBurst)
	election := &obj.LeaderElection
	setPointer(&election.LeaderElect, !advisory)
	setDefault(&election.ResourceNamespace, defaultLeaseNamespace)
	setDefault(&election.ResourceName, defaultLeaseName)
	setDuration(&election.LeaseDuration, defaultLeaseDuration)
	setDuration(&election.RenewDeadline, defaultRenewDeadline)
	setDuration(&election.RetryPeriod, defaultRetryPeriod)
}

// setScoring sets the defaults of VolumeTopologyArgs for binding mode and scoring.
func setScoring(obj *ExtenderConfiguration) {
	args := configv1.VolumeTopologyArgs{BindingMode: obj.BindingMode, Scoring: obj.Scoring}
	configv1.SetDefaults_VolumeTopologyArgs(&args)
	obj.BindingMode, obj.Scoring = args.BindingMode, args.Scoring
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
