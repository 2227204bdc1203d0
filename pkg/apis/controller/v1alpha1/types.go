// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"stowage.dev/stowage/pkg/apis/component"
)

// SchemeGroupVersion is the group and version of the configuration file.
var SchemeGroupVersion = schema.GroupVersion{Group: "controller.config.stowage.dev", Version: "v1alpha1"}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ControllerConfiguration is how stowage-controller runs.
type ControllerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// healthAddress is the host:port of /healthz, /livez, /readyz and /metrics,
	// in plain HTTP; "" for none.
	// Default: ":8080"
	// +optional
	HealthAddress *string `json:"healthAddress,omitempty"`

	// namespace is that of the provisioners, of their ConfigMaps and of the cleaning Jobs.
	// Default: stowage-system
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// nodeLoss configures what happens to volumes of lost nodes and disks.
	// +optional
	NodeLoss NodeLoss `json:"nodeLoss,omitempty"`

	// cleaningJobs configures the Jobs that clean disks for provisioners whose configuration has
	// useJobForCleaning.
	// +optional
	CleaningJobs CleaningJobs `json:"cleaningJobs,omitempty"`

	// orphanCleans limits how many disks are cleaned whose released volume is gone.
	// +optional
	OrphanCleans OrphanCleans `json:"orphanCleans,omitempty"`

	// pavVolumes configures the volumes of PavProvisioners.
	// +optional
	PavVolumes PavVolumes `json:"pavVolumes,omitempty"`

	// claimBinder configures which claims the controller binds.
	// +optional
	ClaimBinder ClaimBinder `json:"claimBinder,omitempty"`

	// clientConnection configures the client of the API server.
	// +optional
	ClientConnection component.ClientConnection `json:"clientConnection,omitempty"`

	// leaderElection configures which of several replicas works.
	// +optional
	LeaderElection component.LeaderElection `json:"leaderElection,omitempty"`
}

// NodeLoss configures what happens to volumes of lost nodes and disks.
type NodeLoss struct {
	// policy applies to claims without the annotation stowage.dev/node-loss, on the claim
	// or its class. Keep: the claim stays and waits for its volume. Release: the claim is
	// deleted, with the data of the volume, if its controller recreates it.
	// Default: Keep
	// +optional
	Policy NodeLossPolicy `json:"policy,omitempty"`

	// delay is how long a volume must be lost before its claim is released, 1s to 8760h, for
	// claims without the annotation stowage.dev/node-loss-delay, on the claim or its class.
	// Default: 5m
	// +optional
	Delay metav1.Duration `json:"delay,omitempty"`

	// outOfService is whether a node with the taint node.kubernetes.io/out-of-service is
	// lost although its object exists.
	// Default: Ignore
	// +optional
	OutOfService OutOfService `json:"outOfService,omitempty"`

	// releasesPerMinute limits how many claims are deleted, 1 to 10000.
	// Default: 10
	// +optional
	ReleasesPerMinute *int32 `json:"releasesPerMinute,omitempty"`

	// recreatingOwners are kinds of owners, each as Kind.group, that recreate a deleted claim
	// that is not of a StatefulSet: those of operators, such as Cluster.postgresql.cnpg.io. Claims with an owner reference
	// to one are released as those of StatefulSets are. Single claims can be annotated
	// instead, with stowage.dev/node-loss-recreatable.
	// +optional
	RecreatingOwners []string `json:"recreatingOwners,omitempty"`

	// dryRun only reports, in events and metrics, what would be done.
	// Default: false
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// CleaningJobs configures the Jobs that clean disks.
type CleaningJobs struct {
	// enabled makes the controller create Jobs, which needs the rights in
	// manifests/controller/cleaning-jobs.yaml.
	// Default: false
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// image is the image of Jobs. The default is that of DaemonSet stowage-provisioner in
	// the provisioners' namespace.
	// +optional
	Image string `json:"image,omitempty"`
}

// OrphanCleans limits how many disks are cleaned whose volume is gone.
type OrphanCleans struct {
	// perHour limits how many such disks are cleaned in any hour in the whole cluster, 0 to
	// 10000; 0 cleans none.
	// Default: 10
	// +optional
	PerHour *int32 `json:"perHour,omitempty"`
}

// PavVolumes configures the volumes of PavProvisioners.
type PavVolumes struct {
	// enabled makes the controller create and delete volumes for claims whose StorageClass names
	// a PavProvisioner. It needs the kinds in manifests/crd/pav, the rights and the namespace in
	// manifests/controller/pav-volumes.yaml, and the policy in manifests/controller/pav-policy.yaml.
	// Default: false
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// reporterImage is the image of the reporter, a container of each helper pod. It is required
	// if enabled is true.
	// +optional
	ReporterImage string `json:"reporterImage,omitempty"`

	// namespace is that of the specs of volumes, of capacities, and of helper pods whose template
	// names none. It must not change while there are volumes.
	// Default: stowage-pav
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// ClaimBinder configures which claims the controller binds.
type ClaimBinder struct {
	// bindNow configures the binding of claims without a pod.
	// +optional
	BindNow BindNow `json:"bindNow,omitempty"`

	// inPlace configures the controller to bind all claims instead of the PV controller.
	// +optional
	InPlace InPlaceBinder `json:"inPlace,omitempty"`
}

// BindNow configures the binding of claims without a pod.
type BindNow struct {
	// enabled makes the controller bind claims of late-binding classes that have the annotation
	// stowage.dev/bind: Now. It needs the rights in manifests/controller/bind-now.yaml.
	// Default: false
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// annotations are others that mean the same, at most 16.
	// +optional
	Annotations []BindAnnotation `json:"annotations,omitempty"`
}

// BindAnnotation is an annotation of claims.
type BindAnnotation struct {
	// key is the annotation's.
	Key string `json:"key"`

	// value is what the annotation must have; "" for any.
	// +optional
	Value string `json:"value,omitempty"`
}

// InPlaceBinder configures the controller to bind all claims instead of the PV controller.
type InPlaceBinder struct {
	// enabled makes the controller do all work of the PV controller. It is alpha. It needs
	// kube-controller-manager with --controllers=*,-persistentvolume-binder-controller, and the
	// rights in manifests/controller/pv-binder.yaml.
	// Default: false
	// +optional
	Enabled bool `json:"enabled,omitempty"`
}

// NodeLossPolicy is what happens to a claim whose volume is lost.
type NodeLossPolicy string

const (
	// NodeLossKeep: the claim stays and waits for its volume.
	NodeLossKeep NodeLossPolicy = "Keep"
	// NodeLossRelease: the claim is deleted, so that its controller recreates it.
	NodeLossRelease NodeLossPolicy = "Release"
)

// OutOfService is the effect of a node's out-of-service taint on its volumes.
type OutOfService string

const (
	// OutOfServiceIgnore: none; the Node object exists.
	OutOfServiceIgnore OutOfService = "Ignore"
	// OutOfServiceLost: the node is lost as if its object were deleted.
	OutOfServiceLost OutOfService = "Lost"
)
