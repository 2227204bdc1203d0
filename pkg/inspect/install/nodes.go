// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
)

// nodes checks that each node with disks has a provisioner that works: a pod, heartbeats, and a report that is
// Ready and of a valid configuration.
func (a *assessment) nodes(own []*workload) {
	reports := localdisks.Read(a.s).Nodes
	pods := map[string]bool{}
	for _, w := range own {
		for _, pod := range w.pods {
			pods[pod.Spec.NodeName] = true
		}
	}
	exist := snapshot.By[*corev1.Node](a.s)
	leases := snapshot.By[*coordinationv1.Lease](a.s)
	bad := map[string][]string{} // nodes by what is wrong
	ages := map[string]string{}  // of the last heartbeat
	names := slices.Sorted(maps.Keys(mergeKeys(reports, pods)))
	for _, name := range names {
		if name == "" || exist[snapshot.Name{Name: name}] == nil && snapshot.Complete[*corev1.Node](a.s) {
			continue // a pod without a node, or the report of a node that was deleted
		}
		lease := leases[snapshot.Name{Namespace: diskreports.HeartbeatNamespace, Name: name}]
		late := lease == nil
		if lease != nil {
			var age time.Duration
			age, late = a.late(lease)
			ages[name] = " for " + format.Age(a.now.Add(-age), a.now)
		}
		switch {
		case !pods[name] && snapshot.Complete[*corev1.Pod](a.s):
			bad[absentPod] = append(bad[absentPod], name)
		case late && snapshot.Complete[*coordinationv1.Lease](a.s):
			bad[silent] = append(bad[silent], name)
		case reports[name] != nil: // else its pod is new, or not ready, which is another finding
			for _, text := range reportFaults(reports[name]) {
				bad[text] = append(bad[text], name)
			}
		}
	}
	found := nodeFindings(bad, ages, exist)
	var missing []string
	for _, of := range []struct {
		resource string
		complete bool
	}{
		{"leases", snapshot.Complete[*coordinationv1.Lease](a.s)}, {"localdiskreports", snapshot.Complete[*stowage.LocalDiskReport](a.s)},
		{"pods", snapshot.Complete[*corev1.Pod](a.s)},
	} {
		if !of.complete {
			missing = append(missing, of.resource)
		}
	}
	if len(missing) > 0 {
		found = append(found, unknown(missing...))
	}
	a.add(provisionerPart, checkNodes, "heartbeats and reports from "+format.Count(len(names), "node"), found...)
}

// reportFaults are the conditions of a report that are not True.
func reportFaults(report *stowage.LocalDiskReport) (all []string) {
	for _, kind := range []string{stowage.ConditionReady, stowage.ConditionConfigValid} {
		if c := meta.FindStatusCondition(report.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			all = append(all, fmt.Sprintf("the report has %s %s, %s: %s", kind, c.Status, c.Reason, c.Message))
		}
	}
	return all
}

// nodeFindings makes one finding of all nodes with the same fault.
func nodeFindings(bad map[string][]string, ages map[string]string, exist map[snapshot.Name]*corev1.Node) (found []*finding) {
	for _, text := range slices.Sorted(maps.Keys(bad)) {
		nodes := bad[text]
		on := " on " + format.List(nodes, few)
		next := fmt.Sprintf("kubectl get pods -A -l app.kubernetes.io/name=stowage-provisioner -o wide --field-selector spec.nodeName=%s", nodes[0])
		switch {
		case text == silent:
			on = lastBeats(nodes, ages)
		case text != absentPod:
			next = "kubectl describe localdiskreport " + nodes[0]
		}
		if node := exist[snapshot.Name{Name: nodes[0]}]; node != nil && !nodeReady(node) {
			on += "; " + nodes[0] + " is not Ready"
		}
		found = append(found, problem(text+on, next, guide.Page("monitoring", "stowageprovisionerssilent")))
	}
	return found
}

// silent is what is wrong with a node whose provisioner does not renew its Lease.
const silent = "no heartbeat"

// absentPod is what is wrong with a node with disks and without a pod of a provisioner.
const absentPod = "no provisioner runs"

// lastBeats says from which nodes there are no heartbeats, and since when from the first of them.
func lastBeats(nodes []string, ages map[string]string) string {
	age := cmp.Or(ages[nodes[0]], " so far")
	if len(nodes) == 1 {
		return " from " + nodes[0] + age
	}
	return " from " + format.List(nodes, few) + ", from " + nodes[0] + age
}

// owners are the pods that have something.
func owners(n int) string {
	if n == 1 {
		return "1 pod has"
	}
	return format.Count(n, "pod") + " have"
}

// mergeKeys returns the keys of two maps.
func mergeKeys[A, B any](a map[string]A, b map[string]B) map[string]bool {
	all := map[string]bool{}
	for key := range a {
		all[key] = true
	}
	for key := range b {
		all[key] = true
	}
	return all
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// disks counts the disks that need an administrator, by state and reason.
func (a *assessment) disks() {
	if !a.has(provisionerPart) {
		return
	}
	if !snapshot.Complete[*stowage.LocalDiskReport](a.s) {
		a.add(partCluster, checkDisks, "", unknown("localdiskreports"))
		return
	}
	all := localdisks.Read(a.s).Disks
	type kind struct{ state, reason string }
	nodes := map[kind][]string{}
	for _, disk := range all {
		if degraded := disk.Degraded(); degraded || disk.Trouble() {
			k := kind{string(disk.State), disk.Reason}
			if degraded {
				k.state = string(stowage.LocalDiskDegraded)
			}
			nodes[k] = append(nodes[k], disk.Node)
		}
	}
	var found []*finding
	for _, k := range slices.SortedFunc(maps.Keys(nodes), func(a, b kind) int { return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.reason, b.reason)) }) {
		on := slices.Clone(nodes[k])
		slices.Sort(on)
		on = slices.Compact(on)
		text := format.Count(len(nodes[k]), "disk") + " " + k.state
		if k.reason != "" {
			text += " with reason " + k.reason
		}
		link := cmp.Or(guide.Link(k.reason, guide.Reasons), guide.States.Link())
		found = append(found, warning(text+" on "+format.List(on, few), "kubectl describe localdiskreport "+on[0], link))
	}
	a.add(partCluster, checkDisks, format.Count(len(all), "disk")+" reported, none in trouble", found...)
}

// pavProvisioners checks that the provisioners are accepted.
func (a *assessment) pavProvisioners() {
	all := snapshot.Of[*stowage.PavProvisioner](a.s)
	if len(all) == 0 {
		return
	}
	var found []*finding
	for _, p := range slices.SortedFunc(slices.Values(all), func(a, b *stowage.PavProvisioner) int { return cmp.Compare(a.Name, b.Name) }) {
		c := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionAccepted)
		switch {
		case c == nil:
			found = append(found, warning("PavProvisioner "+p.Name+" has no condition Accepted yet: the controller has not handled it", "kubectl describe pavprovisioner "+p.Name, guide.PavProvisioners.Link()))
		case c.Status != metav1.ConditionTrue:
			found = append(found, warning(fmt.Sprintf("PavProvisioner %s is not accepted, %s: %s", p.Name, c.Reason, c.Message), "kubectl describe pavprovisioner "+p.Name, guide.PavProvisioners.Link()))
		}
	}
	a.add(partCluster, checkPav, format.Count(len(all), "PavProvisioner")+" accepted", found...)
}

// untried is how long a pod can have no answer of a scheduler.
const untried = time.Minute

// pods checks that some scheduler tries each pod. A pod that one has tried and could not place has a condition.
func (a *assessment) pods() {
	if !snapshot.Complete[*corev1.Pod](a.s) {
		a.add(partCluster, checkPods, "", unknown("pods"))
		return
	}
	waits := map[string][]string{}
	for _, pod := range snapshot.Of[*corev1.Pod](a.s) {
		tried := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		if pod.Spec.NodeName == "" && !tried && pod.DeletionTimestamp == nil && a.now.Sub(pod.CreationTimestamp.Time) > untried {
			waits[pod.Spec.SchedulerName] = append(waits[pod.Spec.SchedulerName], pod.Namespace+"/"+pod.Name)
		}
	}
	var found []*finding
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		names := waits[name]
		slices.Sort(names)
		found = append(found, problem(fmt.Sprintf("no scheduler serves schedulerName %s, which %s: %s", name, owners(len(names)), format.List(names, few)),
			"install or start the scheduler "+name+", or recreate the pods with the name of one that runs", guide.Pods.Link()))
	}
	a.add(partCluster, checkPods, "no pod waits for a scheduler that does not run", found...)
}
