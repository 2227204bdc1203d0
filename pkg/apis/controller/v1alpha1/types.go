// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ControllerConfiguration is how stowage-controller runs.
type ControllerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// healthAddress is the host:port of /healthz, /livez, /readyz and /metrics,
	// in plain HTTP; "" for none.
	// Default: ":8080"
	// +optional
	HealthAddress *string `json:"healthAddress,omitempty"`

	// nodeLoss says what becomes of volumes that nobody can reach any more.
	// +optional
	NodeLoss NodeLoss `json:"nodeLoss,omitempty"`

	// cleaningJobs says whether Jobs clean the disks of agents that ask for it, whose
	// configuration says useJobForCleaning.
	// +optional
	CleaningJobs CleaningJobs `json:"cleaningJobs,omitempty"`

	// orphanCleans limits how many disks are cleaned although their volume, which was
	// released, is gone.
	// +optional
	OrphanCleans OrphanCleans `json:"orphanCleans,omitempty"`

	// clientConnection is to the API server.
	// +optional
	ClientConnection ClientConnection `json:"clientConnection,omitempty"`

	// leaderElection says whether one of several replicas works at a time.
	// +optional
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
}

// NodeLoss says what becomes of volumes that nobody can reach any more.
type NodeLoss struct {
	// policy is for claims that do not say themselves (annotation
	// stowage.dev/node-loss) and whose class does not either. Keep: the claim
	// stays and waits for its volume. Release: the claim is deleted, if its
	// controller makes it anew, and with it all that was on the volume.
	// Default: Keep
	// +optional
	Policy NodeLossPolicy `json:"policy,omitempty"`

	// delay is how long a volume is lost before anything is done, 1s to 8760h,
	// for claims that do not say themselves (annotation
	// stowage.dev/node-loss-delay) and whose class does not either.
	// Default: 5m
	// +optional
	Delay metav1.Duration `json:"delay,omitempty"`

	// outOfService says whether a node that carries the taint
	// node.kubernetes.io/out-of-service is lost, although its object is there.
	// Default: Ignore
	// +optional
	OutOfService OutOfService `json:"outOfService,omitempty"`

	// releasesPerMinute bounds how many claims are deleted, 1 to 10000.
	// Default: 10
	// +optional
	ReleasesPerMinute *int32 `json:"releasesPerMinute,omitempty"`

	// recreatingOwners are kinds of owners, each as Kind.group, that make a claim
	// again when it is deleted, although it is not of a StatefulSet: those of
	// operators, such as Cluster.postgresql.cnpg.io. Claims with an owner reference
	// to one are released as those of StatefulSets are. Single claims can be annotated
	// instead, with stowage.dev/node-loss-recreatable.
	// +optional
	RecreatingOwners []string `json:"recreatingOwners,omitempty"`

	// dryRun has events and metrics tell what would be done, and nothing done.
	// Default: false
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// CleaningJobs says whether Jobs clean the disks of agents that ask for it.
type CleaningJobs struct {
	// enabled has the controller make them, for which it needs the rights in
	// manifests/controller/cleaning-jobs.yaml.
	// Default: false
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// image is what Jobs run. Without one it is that of the agents, from DaemonSet
	// stowage-provisioner in namespace stowage-system.
	// +optional
	Image string `json:"image,omitempty"`
}

// OrphanCleans limits how many disks are cleaned although their volume is gone.
type OrphanCleans struct {
	// perHour bounds how many disks of the cluster are cleaned so in any hour, 0 to
	// 10000; 0 cleans none.
	// Default: 10
	// +optional
	PerHour *int32 `json:"perHour,omitempty"`
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
	// kubeconfig is a file. Without one the pod's service account is used.
	// +optional
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// qps is how many requests a second are sent.
	// Default: 50
	// +optional
	QPS *int32 `json:"qps,omitempty"`

	// burst is how many requests are sent at once.
	// Default: 100
	// +optional
	Burst *int32 `json:"burst,omitempty"`
}

// LeaderElection says whether one of several replicas answers at a time.
type LeaderElection struct {
	// leaderElect has one replica work at a time; the others stand by, with warm
	// caches. Only a single replica may do without.
	// Default: true
	// +optional
	LeaderElect *bool `json:"leaderElect,omitempty"`

	// resourceNamespace and resourceName are the lease's.
	// Default: stowage-system
	// +optional
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
	// Default: stowage-controller
	// +optional
	ResourceName string `json:"resourceName,omitempty"`

	// leaseDuration is how long a replica that is gone keeps the others waiting.
	// Default: 15s
	// +optional
	LeaseDuration metav1.Duration `json:"leaseDuration,omitempty"`
	// renewDeadline is how long the leader tries to renew before it gives up.
	// Default: 10s
	// +optional
	RenewDeadline metav1.Duration `json:"renewDeadline,omitempty"`
	// retryPeriod is the time between two tries.
	// Default: 2s
	// +optional
	RetryPeriod metav1.Duration `json:"retryPeriod,omitempty"`
}
