// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Keys of the ConfigMap that are used in more than one place.
const (
	classMapKey    = "storageClassMap"
	removeTaintKey = "removeNodeNotReadyTaint"
	taintKeyKey    = "provisionerNotReadyNodeTaintKey"
	useJobsKey     = "useJobForCleaning"
)

// reserved is the prefix of the labels by which the provisioner finds its volumes.
const reserved = "stowage.dev/"

// globalKeys are the keys of the ConfigMap.
var globalKeys = []key[*Config]{
	{classMapKey, readClasses},
	{"nodeLabelsForPV", readNodeLabels},
	{"labelsForPV", readLabels},
	{"useAlphaAPI", refuseAlpha},
	{useJobsKey, func(n node, c *Config) { set(&c.UseJobForCleaning)(n.boolean()) }},
	{"jobTolerations", readTolerations},
	{"minResyncPeriod", func(n node, c *Config) {
		set(&c.MinResyncPeriod)(n.durationWithin(minResyncPeriod, maxResyncPeriod))
	}},
	{"useNodeNameOnly", func(n node, c *Config) { set(&c.UseNodeNameOnly)(n.boolean()) }},
	{"setPVOwnerRef", refuseOwner},
	{removeTaintKey, func(n node, c *Config) { set(&c.RemoveNodeNotReadyTaint)(n.boolean()) }},
	{taintKeyKey, readTaintKey},
	{"maxCleaning", func(n node, c *Config) { set(&c.MaxCleaning)(n.integer(minMaxCleaning, maxMaxCleaning)) }},
	{"maxBlankProofs", func(n node, c *Config) { set(&c.MaxBlankProofs)(n.integer(minBlankProofs, maxBlankProofs)) }},
	{"blankProofRate", func(n node, c *Config) { set(&c.BlankProofRate)(n.quantityWithin(minBlankRate, maxBlankRate)) }},
	{"orphanGracePeriod", func(n node, c *Config) {
		set(&c.OrphanGracePeriod)(n.durationWithin(minOrphanGrace, maxOrphanGrace))
	}},
	{"probeTimeout", func(n node, c *Config) {
		set(&c.ProbeTimeout)(n.durationWithin(minProbeTimeout, maxProbeTimeout))
	}},
}

func refuseAlpha(n node, _ *Config) {
	refuseOn(n, "nothing reads the annotation volume.alpha.kubernetes.io/node-affinity since Kubernetes 1.10. "+
		"Remove this key: volumes always have spec.nodeAffinity")
}

func refuseOwner(n node, _ *Config) {
	refuseOn(n, "deleting a Node object would delete its volumes, though the node may come back with the data of their claims. "+
		"Remove this key; for a node that will not return, use stowage-provisioner release")
}

// refuseOn reads a switch that must be off.
func refuseOn(n node, why string) {
	if on, ok := n.boolean(); ok && on {
		n.failf("must be off: %s", why)
	}
}

func readNodeLabels(n node, config *Config) {
	items, _ := n.list("label keys")
	for _, item := range items {
		label, ok := item.text()
		if ok && isLabelKey(item, label) && !slices.Contains(config.NodeLabelsForPV, label) {
			config.NodeLabelsForPV = append(config.NodeLabelsForPV, label)
		}
	}
}

func readLabels(n node, config *Config) {
	for _, entry := range n.entries("labels") {
		value, ok := "", true
		if !isEmpty(entry.value) {
			value, ok = entry.text()
		}
		if !isLabelKey(entry.node, entry.key) || !ok {
			continue
		}
		if faults := validation.IsValidLabelValue(value); len(faults) > 0 {
			entry.failf("%q cannot be the value of a label: %s", value, strings.Join(faults, "; "))
			continue
		}
		if config.LabelsForPV == nil {
			config.LabelsForPV = map[string]string{}
		}
		config.LabelsForPV[entry.key] = value
	}
}

// isLabelKey reports keys that are not valid for a label, or are reserved.
func isLabelKey(n node, label string) bool {
	if faults := validation.IsQualifiedName(label); len(faults) > 0 {
		n.failf("%q cannot be the key of a label: %s", label, strings.Join(faults, "; "))
		return false
	}
	if strings.HasPrefix(label, reserved) {
		n.failf("labels that begin with %s are reserved for the provisioner: choose another key than %s", reserved, label)
		return false
	}
	return true
}

func readTaintKey(n node, config *Config) {
	taint, ok := n.text()
	if !ok {
		return
	}
	if faults := validation.IsQualifiedName(taint); len(faults) > 0 {
		n.failf("%q cannot be the key of a taint: %s", taint, strings.Join(faults, "; "))
		return
	}
	config.NodeNotReadyTaintKey = taint
}
