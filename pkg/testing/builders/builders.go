// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builders makes Kubernetes objects for tests in one readable line:
//
//	builders.MakePV("pv-1").Class("local").Capacity("10Gi").Hostname("n1").Obj()
//
// Every builder starts from the smallest object its kind makes sense with,
// each method changes one thing and returns the same builder, and Obj returns
// a copy that the caller owns, so one builder may be used as a template for
// several objects. A quantity that cannot be parsed panics. Builders are not
// safe for concurrent use. Only tests import this package.
package builders

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of API annotations that the builders write.
const (
	annBetaClass         = v1.BetaStorageClassAnnotation
	annBindCompleted     = "pv.kubernetes.io/bind-completed"
	annBoundByController = "pv.kubernetes.io/bound-by-controller"
	annProvisionedBy     = "pv.kubernetes.io/provisioned-by"
	annSelectedNode      = "volume.kubernetes.io/selected-node"
	annProvisioner       = "volume.kubernetes.io/storage-provisioner"
	annBetaProvisioner   = "volume.beta.kubernetes.io/storage-provisioner"
)

// DefaultNamespace is where namespaced objects live unless set otherwise.
const DefaultNamespace = metav1.NamespaceDefault

// deletedAt is the deletion time of every object that is being deleted: a
// constant, so that objects compare equal between runs.
var deletedAt = metav1.NewTime(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))

// set writes one key of a map that may not exist yet.
func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// In is the requirement that a node label has one of the values.
func In(key string, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: slices.Clone(values)}
}

// Requirement is a node selector requirement with any operator.
func Requirement(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: op, Values: slices.Clone(values)}
}

// Term is a node selector term whose label requirements must all hold.
func Term(requirements ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: slices.Clone(requirements)}
}

// FieldTerm is a node selector term whose field requirements must all hold.
func FieldTerm(requirements ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: slices.Clone(requirements)}
}
