// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VolumeTopologyArgs are the arguments of the VolumeTopology plugin of one
// scheduler profile.
type VolumeTopologyArgs struct {
	metav1.TypeMeta `json:",inline"`

	// bindTimeoutSeconds bounds how long a pod waits, in seconds, until all its
	// claims are bound; then the attempt fails and the pod goes back to the
	// queue. 1 to 3600; 0 is refused, because a bind that may not wait can
	// never finish.
	// Default: 600
	// +optional
	BindTimeoutSeconds *int64 `json:"bindTimeoutSeconds,omitempty"`

	// bindingMode says who completes the binding of a claim to a volume.
	// Direct: the scheduler writes the whole binding, beside a running PV
	// controller; needs update on persistentvolumes/status and
	// persistentvolumeclaims/status.
	// PVController: the scheduler writes its decision, the PV controller does
	// the rest.
	// Default: Direct
	// +optional
	BindingMode BindingMode `json:"bindingMode,omitempty"`

	// scoring says how nodes that can serve a pod's claims are ranked.
	// +optional
	Scoring VolumeScoring `json:"scoring,omitempty"`
}

// BindingMode says who completes the binding of a claim to a volume.
type BindingMode string

const (
	// BindingModeDirect: the scheduler writes the whole binding.
	BindingModeDirect BindingMode = "Direct"
	// BindingModePVController: the scheduler writes its decision, the PV
	// controller completes the binding.
	BindingModePVController BindingMode = "PVController"
)

// VolumeScoring says how nodes that can serve a pod's claims are ranked, by
// the utilization of each storage class. For claims served by existing
// (static) volumes utilization is bytes asked / bytes given; for claims that
// are provisioned it is (bytes asked + bytes already held) / capacity.
type VolumeScoring struct {
	// strategy maps utilization to a score.
	// BestFit: high utilization is better for existing volumes (least waste),
	// low utilization for provisioned ones (room left).
	// LeastAllocated: low utilization is better for both.
	// MostAllocated: high utilization is better for both.
	// RequestedToCapacityRatio: shape decides for both.
	// Default: BestFit
	// +optional
	Strategy ScoringStrategy `json:"strategy,omitempty"`

	// shape maps utilization to a score: points with strictly increasing
	// utilization, linear in between and constant outside. Required with
	// RequestedToCapacityRatio, refused with every other strategy.
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
	// ScoringBestFit: least waste of existing volumes, most room left where
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
