// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localdisks

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// Hosts returns the names of nodes by their hostname; an empty name stands for several nodes.
func Hosts(s *snapshot.Snapshot) map[string]string {
	hosts := map[string]string{}
	for _, node := range snapshot.Of[*corev1.Node](s) {
		host := node.Labels[corev1.LabelHostname]
		switch _, several := hosts[host]; {
		case host == "":
		case several:
			hosts[host] = ""
		default:
			hosts[host] = node.Name
		}
	}
	return hosts
}

// Hostname returns the only hostname that a volume requires if it requires nothing else; else it is empty.
func Hostname(pv *corev1.PersistentVolume) string {
	if terms := termsOf(pv.Spec.NodeAffinity); len(terms) != 1 || len(terms[0].MatchExpressions) != 1 || len(terms[0].MatchFields) > 0 {
		return ""
	}
	return OnlyValue(pv.Spec.NodeAffinity, corev1.LabelHostname)
}

// NodeOf returns the only node that can use a volume, which may not exist; empty if there are several. hosts is what
// Hosts returns.
func NodeOf(pv *corev1.PersistentVolume, hosts map[string]string) string {
	terms := termsOf(pv.Spec.NodeAffinity)
	if len(terms) == 0 {
		return ""
	}
	host := OnlyValue(pv.Spec.NodeAffinity, corev1.LabelHostname)
	if node := hosts[host]; node != "" {
		return node
	}
	name := ""
	if len(terms) == 1 {
		for _, f := range terms[0].MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				name = f.Values[0]
			}
		}
	}
	return cmp.Or(name, pv.Annotations[wellknown.NodeNameAnnotation], pv.Annotations[wellknown.PavNodeAnnotation], host)
}

// OnlyValue returns the value of a label that an affinity requires; empty if it requires none or several.
func OnlyValue(affinity *corev1.VolumeNodeAffinity, label string) string {
	terms := termsOf(affinity)
	if len(terms) != 1 {
		return ""
	}
	for _, e := range terms[0].MatchExpressions {
		if e.Key == label && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Values[0]
		}
	}
	return ""
}

func termsOf(affinity *corev1.VolumeNodeAffinity) []corev1.NodeSelectorTerm {
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	return affinity.Required.NodeSelectorTerms
}
