// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/config"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ExtenderConfiguration is how stowage-extender runs.
type ExtenderConfiguration struct { //nolint:revive // the kind prescribes the name
	metav1.TypeMeta

	// Mode says what the scheduler leaves to the extender.
	Mode Mode
	// SchedulerNames are the schedulers whose pods are bound; empty: any.
	// Mode Full only.
	SchedulerNames []string
	// Serving is where and to whom the scheduler's calls are answered.
	Serving Serving
	// HealthAddress is the host:port of /healthz, /livez, /readyz and /metrics,
	// in plain HTTP; "" for none.
	HealthAddress string
	// Timeouts bound calls and holds.
	Timeouts Timeouts
	// BindingMode says who completes a binding. Mode Full only.
	BindingMode config.BindingMode
	// Scoring says how nodes are ranked.
	// +k8s:conversion-gen=false
	Scoring config.VolumeScoring
	// ClientConnection is to the API server.
	ClientConnection ClientConnection
	// LeaderElection says whether one of several replicas answers at a time.
	LeaderElection LeaderElection
}

// Mode says what the scheduler leaves to the extender.
type Mode string

const (
	// ModeFull: the profile's VolumeBinding is disabled, and the extender
	// chooses and binds volumes.
	ModeFull Mode = "Full"
	// ModeAdvisory: VolumeBinding stays, and the extender refuses and ranks
	// nodes.
	ModeAdvisory Mode = "Advisory"
)

// Serving is where and to whom the scheduler's calls are answered.
type Serving struct {
	// Address is host:port.
	Address string
	// CertFile, KeyFile and ClientCAFile are PEM files, read anew when they
	// change.
	CertFile, KeyFile, ClientCAFile string
	// ClientNames are the common names of client certificates that may call;
	// empty, not in mode Full: any that ClientCAFile has signed.
	ClientNames []string
	// Insecure serves plain HTTP, to anybody, on a loopback address.
	Insecure bool
	// MaxBodyBytes bounds a request's body.
	MaxBodyBytes int64
}

// Timeouts bound calls and holds.
type Timeouts struct {
	// Verb is how long any call may take.
	Verb metav1.Duration
	// Hold is how long a pod is kept to its node for volumes being made, and,
	// in mode Advisory, how long capacity is set aside for a pod whose node
	// is not known.
	Hold metav1.Duration
}

// ClientConnection is to the API server.
type ClientConnection struct {
	// Kubeconfig is a file; "": the pod's service account.
	Kubeconfig string
	// QPS and Burst bound requests.
	QPS   int32
	Burst int32
}

// LeaderElection says whether one of several replicas answers at a time.
type LeaderElection struct {
	LeaderElect                               bool
	ResourceNamespace, ResourceName           string
	LeaseDuration, RenewDeadline, RetryPeriod metav1.Duration
}
