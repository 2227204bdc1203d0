// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// The states of a node.
const (
	nodeReady    = "Ready"
	nodeNotReady = "NotReady"
	nodeMissing  = "Missing"
	nodeUnknown  = "Unknown" // nodes could not be read
)

// nodeState returns the state of a node.
func (x *explainer) nodeState(name string) string {
	node := snapshot.Find[*corev1.Node](x.s, "", name)
	switch {
	case node == nil && snapshot.Complete[*corev1.Node](x.s):
		return nodeMissing
	case node == nil:
		return nodeUnknown
	}
	if c := readyCondition(node); c != nil && c.Status != corev1.ConditionTrue {
		return nodeNotReady
	}
	return nodeReady
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c
		}
	}
	return nil
}

// maxDisks is how many disks of a node are related.
const maxDisks = 20

// node explains a node: its provisioner, its disks, and its volumes.
func (x *explainer) node(name string) error {
	node, report := snapshot.Find[*corev1.Node](x.s, "", name), x.reports.Nodes[name]
	var volumes []*corev1.PersistentVolume
	for _, pv := range snapshot.Of[*corev1.PersistentVolume](x.s) {
		if x.nodeOf(pv) == name {
			volumes = append(volumes, pv)
		}
	}
	removed := x.removedVolumes(name)
	if node == nil && report == nil && len(volumes)+removed == 0 {
		var names []string
		for _, n := range snapshot.Of[*corev1.Node](x.s) {
			names = append(names, n.Name)
		}
		return &NotFoundError{Kind: KindNode, Name: name, Hint: strings.TrimPrefix(similarly(name, names), ", ")}
	}
	state := x.nodeState(name)
	x.state(state, nil)
	switch state {
	case nodeMissing:
		x.say("Node %s does not exist, and has %s.", name, format.Count(len(volumes), "volume"))
		if len(volumes) > 0 {
			x.wait(v1alpha1.Wait{For: v1alpha1.WaitNode, Name: name})
			x.next("bring the node back under its name, or have its claims released: annotation stowage.dev/node-loss=Release on the claims or the class")
			x.link(guide.ControllerEvents.Link())
		}
	case nodeNotReady:
		c := readyCondition(node)
		x.report.Since = &c.LastTransitionTime
		x.say("Node %s is not Ready%s: %s.", name, x.since(&c.LastTransitionTime), strings.TrimSuffix(cmp.Or(c.Message, c.Reason), "."))
		x.wait(v1alpha1.Wait{For: v1alpha1.WaitNode, Name: name, Reason: c.Reason})
		x.next("repair the node; if the machine will not come back, delete the Node: its volumes then count as lost")
	case nodeUnknown:
		x.say("Node %s could not be read.", name)
	default:
		x.say("Node %s is Ready.", name)
	}
	if node != nil && node.Spec.Unschedulable {
		x.say("It is cordoned: no pod is placed on it.")
	}
	if removed > 0 {
		x.say("The controller has removed %s that the node had, and keeps tombstones: if their disks appear again, they are cleaned, or kept if the tombstone is Retained.", format.Count(removed, "volume"))
		x.next("kubectl get localdisktombstones --field-selector spec.nodeName=%s", name)
		x.link(guide.Tombstones.Link())
	}
	x.nodeReport(name, report)
	x.nodeDisks(name)
	lost := 0
	for _, pv := range volumes {
		if _, reported := x.reports.OfVolume(pv.Name); !reported || state == nodeMissing {
			lost++
			if lost <= maxDisks {
				x.relate(KindVolume, "", pv.Name, "on the node", x.volumeState(pv.Name))
			}
		}
	}
	return nil
}

// removedVolumes counts the tombstones of a node.
func (x *explainer) removedVolumes(node string) (n int) {
	for _, t := range snapshot.Of[*stowage.LocalDiskTombstone](x.s) {
		if t.Spec.NodeName == node {
			n++
		}
	}
	return n
}

// nodeReport explains the state of a node's provisioner.
func (x *explainer) nodeReport(name string, report *stowage.LocalDiskReport) {
	if report == nil {
		if !snapshot.Complete[*stowage.LocalDiskReport](x.s) || x.report.State == nodeMissing {
			return
		}
		x.say("It has no LocalDiskReport: no provisioner has run there.")
		if x.report.State == nodeReady {
			x.next("see whether the provisioner is to run on node %s: kubectl -n %s get pods -o wide", name, x.provisioners())
		}
		x.link(guide.Disks.Link())
		return
	}
	x.reportAge(name)
	if c := meta.FindStatusCondition(report.Status.Conditions, stowage.ConditionConfigValid); c != nil && c.Status == metav1.ConditionFalse {
		x.say("Its configuration is not valid%s, and the last valid one is in force: %s.", x.since(&c.LastTransitionTime), strings.TrimSuffix(c.Message, "."))
		x.next("correct the ConfigMap of the provisioner: kubectl stowage validate")
		x.link(guide.ProvisionerEvents.Link())
	}
	for _, class := range report.Status.Classes {
		if !class.Ready {
			x.say("Class %s is not ready%s, %s: %s.", class.Name, x.since(class.Since), class.Reason, strings.TrimSuffix(class.Message, "."))
			x.link(guide.Tombstones.Link())
		}
	}
	if n := report.Status.Truncated; n > 0 {
		x.say("%s are in no page of the report, because there are too many.", format.Count(int(n), "entry"))
	}
	if n := len(report.Status.Tombstones); n > 0 {
		x.say("The node has records of %s that may hold data and have no volume.", format.Count(n, "disk"))
		x.link(guide.Tombstones.Link())
	}
}

// nodeDisks counts the disks of a node by state, and relates those that are not free or bound first.
func (x *explainer) nodeDisks(name string) {
	counts := map[stowage.EntryState]int{}
	var disks []localdisks.Disk
	for _, d := range x.reports.Disks {
		if d.Node == name {
			counts[d.State]++
			disks = append(disks, d)
		}
	}
	if len(disks) == 0 {
		return
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
	}
	x.say("Its report has %s: %s.", format.Count(len(disks), "disk"), strings.Join(parts, ", "))
	rank := func(d localdisks.Disk) int {
		switch {
		case d.Trouble():
			return 0
		case d.Reason != "":
			return 1
		case d.State != stowage.EntryAvailable && d.State != stowage.EntryBound:
			return 2
		}
		return 3
	}
	slices.SortFunc(disks, func(a, b localdisks.Disk) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(diskName(a), diskName(b))) })
	for _, d := range disks[:min(len(disks), maxDisks)] {
		state := string(d.State)
		if d.Reason != "" {
			state += ", " + d.Reason
		}
		x.relate(KindDisk, "", diskName(d), "on the node", state)
	}
	if len(disks) > maxDisks {
		x.say("%d of them are listed; kubectl stowage map --node %s -o wide has all.", maxDisks, name)
	}
	if rank(disks[0]) < 2 {
		x.next("kubectl stowage why disk %s", diskName(disks[0]))
	}
}

// nodeOf returns the only node that can use a volume; empty if there are several.
func (x *explainer) nodeOf(pv *corev1.PersistentVolume) string {
	if x.hosts == nil {
		x.hosts = localdisks.Hosts(x.s)
	}
	return localdisks.NodeOf(pv, x.hosts)
}
