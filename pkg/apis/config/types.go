// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PluginName is the name by which scheduler profiles enable the plugin and
// give it arguments. The kind of the arguments is this name with "Args" added,
// which is how kube-scheduler finds the type for a plugin's arguments.
const PluginName = "VolumeTopology"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// VolumeTopologyArgs are the arguments of the VolumeTopology plugin of one
// scheduler profile. They belong to the profile: profiles of one process share
// what is known about volumes, not these settings.
type VolumeTopologyArgs struct {
	metav1.TypeMeta

	// BindTimeoutSeconds bounds, in seconds, how long PreBind waits until all
	// claims of a pod are bound: 1 to 3600.
	BindTimeoutSeconds int64

	// BindingMode is who completes the binding of a claim to a volume.
	BindingMode BindingMode

	// Scoring configures how nodes that can serve a pod's claims are ranked.
	Scoring VolumeScoring
}

// BindingMode is who completes the binding of a claim to a volume.
type BindingMode string

const (
	// BindingModeDirect makes the scheduler write the whole binding: claimRef,
	// volumeName and both statuses. Safe beside a running PV controller. Needs
	// update on persistentvolumes/status and persistentvolumeclaims/status.
	BindingModeDirect BindingMode = "Direct"
	// BindingModePVController has the scheduler write the decision only
	// (claimRef or selected-node); the PV controller does the rest.
	BindingModePVController BindingMode = "PVController"
)

// VolumeScoring configures how nodes that can serve a pod's claims are ranked.
//
// A node is scored per storage class by its utilization, in percent. For
// claims served by existing (static) volumes it is bytes asked / bytes given;
// for claims that are provisioned it is (bytes asked + bytes already held) /
// capacity.
type VolumeScoring struct {
	// Strategy maps utilization to a score.
	Strategy ScoringStrategy

	// Shape is the function of ScoringRequestedToCapacityRatio: points with
	// strictly increasing utilization, linear in between and constant outside.
	// Empty with every other strategy.
	Shape []UtilizationShapePoint

	// StaticWeightPercent is the share, 0 to 100, of the score for existing
	// volumes on a node where a pod's claims are served partly by existing
	// volumes and partly by provisioning. The rest is the share of the score
	// for provisioning. Where only one kind serves, it alone is the score.
	StaticWeightPercent int32
}

// ScoringStrategy names a mapping from utilization to score.
type ScoringStrategy string

const (
	// ScoringBestFit prefers high utilization for existing volumes (least
	// waste, since a volume is given whole) and low utilization for
	// provisioned ones (room left for later).
	ScoringBestFit ScoringStrategy = "BestFit"
	// ScoringLeastAllocated prefers low utilization for both.
	ScoringLeastAllocated ScoringStrategy = "LeastAllocated"
	// ScoringMostAllocated prefers high utilization for both.
	ScoringMostAllocated ScoringStrategy = "MostAllocated"
	// ScoringRequestedToCapacityRatio applies VolumeScoring.Shape to both.
	ScoringRequestedToCapacityRatio ScoringStrategy = "RequestedToCapacityRatio"
)

// UtilizationShapePoint is one point of a scoring function.
type UtilizationShapePoint struct {
	// Utilization in percent, 0 to 100.
	Utilization int32
	// Score at that utilization, 0 (worst) to 10 (best).
	Score int32
}
