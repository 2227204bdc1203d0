// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ControllerConfiguration is how stowage-controller runs.
type ControllerConfiguration struct { //nolint:revive // the kind prescribes the name
	metav1.TypeMeta

	// HealthAddress is the host:port of /healthz, /livez, /readyz and /metrics,
	// in plain HTTP; "" for none.
	HealthAddress string
	// NodeLoss says what becomes of volumes that nobody can reach any more.
	NodeLoss NodeLoss
	// CleaningJobs says whether Jobs clean the disks of agents that ask for it.
	CleaningJobs CleaningJobs
	// OrphanCleans limits how many disks are cleaned although their volume is gone.
	OrphanCleans OrphanCleans
	// ClientConnection is to the API server.
	ClientConnection ClientConnection
	// LeaderElection says whether one of several replicas works at a time.
	LeaderElection LeaderElection
}

// NodeLoss says what becomes of volumes that nobody can reach any more.
type NodeLoss struct {
	// Policy is for claims that say nothing, and whose class says nothing.
	Policy NodeLossPolicy
	// Delay is how long a volume is lost before anything is done, unless claim or
	// class say otherwise.
	Delay metav1.Duration
	// OutOfService says whether a node with the out-of-service taint is lost.
	OutOfService OutOfService
	// ReleasesPerMinute bounds how many claims are deleted.
	ReleasesPerMinute int32
	// RecreatingOwners are kinds of owners, as Kind.group, that make their claims again.
	RecreatingOwners []string
	// DryRun only tells what would be done.
	DryRun bool
}

// CleaningJobs says whether Jobs clean the disks of agents that ask for it.
type CleaningJobs struct {
	// Enabled has the controller make them.
	Enabled bool
	// Image is what they run; "": the image of the agents.
	Image string
}

// OrphanCleans limits how many disks are cleaned although their volume is gone.
type OrphanCleans struct {
	// PerHour bounds how many disks of the cluster are cleaned so in any hour; 0
	// cleans none.
	PerHour int32
}

// NodeLossPolicy says what becomes of a claim whose volume is lost.
type NodeLossPolicy string

const (
	// NodeLossKeep: the claim stays and waits for its volume.
	NodeLossKeep NodeLossPolicy = "Keep"
	// NodeLossRelease: the claim is deleted, so that its controller makes a new one.
	NodeLossRelease NodeLossPolicy = "Release"
)

// OutOfService says what a node's out-of-service taint means for its volumes.
type OutOfService string

const (
	// OutOfServiceIgnore: nothing, the Node object is there.
	OutOfServiceIgnore OutOfService = "Ignore"
	// OutOfServiceLost: the node is lost as if its object were gone.
	OutOfServiceLost OutOfService = "Lost"
)

// ClientConnection is to the API server.
type ClientConnection struct {
	// Kubeconfig is a file; "": the pod's service account.
	Kubeconfig string
	// QPS and Burst bound requests.
	QPS   int32
	Burst int32
}

// LeaderElection says whether one of several replicas works at a time.
type LeaderElection struct {
	LeaderElect                               bool
	ResourceNamespace, ResourceName           string
	LeaseDuration, RenewDeadline, RetryPeriod metav1.Duration
}
