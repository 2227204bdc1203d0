// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PluginName is the name by which scheduler profiles enable the plugin and
// give it arguments. The kind of the arguments is this name with "Args" added,
// which is how kube-scheduler finds the type for a plugin's arguments.
const PluginName = "VolumeTopology"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VolumeTopologyArgs are the arguments of the VolumeTopology plugin of one
// scheduler profile.
type VolumeTopologyArgs struct {
	metav1.TypeMeta `json:",inline"`

	// bindTimeoutSeconds is how long, in seconds, a pod waits until all its claims are
	// bound; then the attempt fails and the pod is requeued. 1 to 3600; 0 is invalid,
	// because a bind without waiting cannot finish.
	// Default: 600
	// +optional
	BindTimeoutSeconds *int64 `json:"bindTimeoutSeconds,omitempty"`

	// bindingMode is who completes the binding of a claim to a volume.
	// Direct: the scheduler writes the whole binding, next to a running PV
	// controller; needs update on persistentvolumes/status and
	// persistentvolumeclaims/status.
	// PVController: the scheduler writes its decision, the PV controller does
	// the rest.
	// Default: Direct
	// +optional
	BindingMode BindingMode `json:"bindingMode,omitempty"`

	// scoring configures how nodes that can serve a pod's claims are ranked.
	// +optional
	Scoring VolumeScoring `json:"scoring,omitempty"`
}

// BindingMode is who completes the binding of a claim to a volume.
type BindingMode string

const (
	// BindingModeDirect: the scheduler writes the whole binding.
	BindingModeDirect BindingMode = "Direct"
	// BindingModePVController: the scheduler writes its decision, the PV
	// controller completes the binding.
	BindingModePVController BindingMode = "PVController"
)

// VolumeScoring configures how nodes that can serve a pod's claims are ranked, by
// the utilization of each storage class. For claims served by existing
// (static) volumes utilization is requested bytes / bytes of the volume; for claims
// that are provisioned it is (requested bytes + held bytes) / capacity.
type VolumeScoring struct {
	// strategy maps utilization to a score.
	// BestFit: high utilization is better for existing volumes (least waste),
	// low utilization for provisioned ones (most free capacity).
	// LeastAllocated: low utilization is better for both.
	// MostAllocated: high utilization is better for both.
	// RequestedToCapacityRatio: shape decides for both.
	// Default: BestFit
	// +optional
	Strategy ScoringStrategy `json:"strategy,omitempty"`

	// shape maps utilization to a score: points with strictly increasing
	// utilization, linear in between and constant outside. Required with
	// RequestedToCapacityRatio, invalid with every other strategy.
	// +listType=atomic
	// +optional
	Shape []UtilizationShapePoint `json:"shape,omitempty"`

	// staticWeightPercent is the share, 0 to 100, of the score for existing
	// volumes on a node where a pod's claims are served partly by existing
	// volumes and partly by provisioning; the rest is the share of the score
	// for provisioning. Where only one kind serves, it alone is the score.
	// Default: 50
	// +optional
	StaticWeightPercent *int32 `json:"staticWeightPercent,omitempty"`
}

// ScoringStrategy names a mapping from utilization to score.
type ScoringStrategy string

const (
	// ScoringBestFit: least waste of existing volumes, most free capacity where
	// volumes are provisioned.
	ScoringBestFit ScoringStrategy = "BestFit"
	// ScoringLeastAllocated: lower utilization is better.
	ScoringLeastAllocated ScoringStrategy = "LeastAllocated"
	// ScoringMostAllocated: higher utilization is better.
	ScoringMostAllocated ScoringStrategy = "MostAllocated"
	// ScoringRequestedToCapacityRatio: VolumeScoring.Shape decides.
	ScoringRequestedToCapacityRatio ScoringStrategy = "RequestedToCapacityRatio"
)

// UtilizationShapePoint is one point of a scoring function.
type UtilizationShapePoint struct {
	// utilization in percent, 0 to 100.
	Utilization int32 `json:"utilization"`
	// score at that utilization, 0 (worst) to 10 (best).
	Score int32 `json:"score"`
}
