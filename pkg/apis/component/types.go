// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ClientConnection configures the client of the API server.
type ClientConnection struct {
	// kubeconfig is a file. Without one the pod's service account is used.
	// +optional
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// qps is how many requests a second are sent.
	// Default: 50; of the extender 1000
	// +optional
	QPS *int32 `json:"qps,omitempty"`

	// burst is how many requests are sent at once.
	// Default: 100; of the extender 2000
	// +optional
	Burst *int32 `json:"burst,omitempty"`
}

// SetDefaults fills every field that the user left out.
func (c *ClientConnection) SetDefaults(qps, burst int32) {
	Default(&c.QPS, &qps)
	Default(&c.Burst, &burst)
}

// Validate returns the faults of a defaulted connection.
func (c *ClientConnection) Validate(path *field.Path) (errs field.ErrorList) {
	if *c.QPS <= 0 {
		errs = append(errs, field.Invalid(path.Child("qps"), *c.QPS, "must be greater than 0"))
	}
	if *c.Burst <= 0 {
		errs = append(errs, field.Invalid(path.Child("burst"), *c.Burst, "must be greater than 0"))
	}
	return errs
}

// LeaderElection configures which of several replicas works.
type LeaderElection struct {
	// leaderElect makes one replica work at a time.
	// The others of the controller are on standby with warm caches. Without it only one
	// replica may run.
	// The others of the extender are not ready. Without it all replicas answer: no volume is
	// assigned twice, but two replicas may assign the same storage capacity within
	// milliseconds of each other.
	// Default: true; of the extender in mode Advisory false
	// +optional
	LeaderElect *bool `json:"leaderElect,omitempty"`

	// resourceNamespace and resourceName name the lease.
	// Default: namespace of the configuration; of the extender kube-system
	// +optional
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
	// Default: stowage-controller; of the extender stowage-extender
	// +optional
	ResourceName string `json:"resourceName,omitempty"`

	// leaseDuration is how long other replicas wait for a leader that does not renew the lease.
	// Default: 15s
	// +optional
	LeaseDuration metav1.Duration `json:"leaseDuration,omitempty"`
	// renewDeadline is how long the leader tries to renew the lease before it gives up.
	// Default: 10s
	// +optional
	RenewDeadline metav1.Duration `json:"renewDeadline,omitempty"`
	// retryPeriod is the time between two attempts.
	// Default: 2s
	// +optional
	RetryPeriod metav1.Duration `json:"retryPeriod,omitempty"`
}

// SetDefaults fills every field that the user left out.
func (e *LeaderElection) SetDefaults(elect bool, namespace, name string) {
	Default(&e.LeaderElect, &elect)
	Default(&e.ResourceNamespace, namespace)
	Default(&e.ResourceName, name)
	Default(&e.LeaseDuration.Duration, 15*time.Second)
	Default(&e.RenewDeadline.Duration, 10*time.Second)
	Default(&e.RetryPeriod.Duration, 2*time.Second)
}

// Validate returns the faults of a defaulted election.
func (e *LeaderElection) Validate(path *field.Path) (errs field.ErrorList) {
	if !*e.LeaderElect {
		return nil
	}
	for name, value := range map[string]string{"resourceName": e.ResourceName, "resourceNamespace": e.ResourceNamespace} {
		for _, why := range validation.IsDNS1123Subdomain(value) {
			errs = append(errs, field.Invalid(path.Child(name), value, why))
		}
	}
	if e.RetryPeriod.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("retryPeriod"), e.RetryPeriod.Duration.String(), "must be greater than 0"))
	}
	if e.RenewDeadline.Duration*5 <= e.RetryPeriod.Duration*6 {
		errs = append(errs, field.Invalid(path.Child("renewDeadline"), e.RenewDeadline.Duration.String(), "must be greater than 1.2 times retryPeriod"))
	}
	if e.LeaseDuration.Duration <= e.RenewDeadline.Duration {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"), e.LeaseDuration.Duration.String(), "must be greater than renewDeadline"))
	}
	return errs
}
