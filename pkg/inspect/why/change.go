// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// change is a change of one object, or of the pod itself.
type change struct {
	inspect.PodChange
	// object is the changed or new object; nil for a change of the pod.
	object snapshot.Object
	// pod is the pod with the change.
	pod *corev1.Pod
	// cost orders the changes of a proposal: how much is taken from a request, or added to a capacity.
	cost int64
}

// proposals propose changes for a node, in the order of their cost: what is undone at once first, then what
// needs storage, then what changes the pod. Each is the smallest of its kind.
var proposals = []struct {
	// reasons are the plugins whose reasons the change can remove. It is proposed for nodes without other reasons.
	reasons []string
	propose func(*podAnswer, simulate.NodeReasons) []change
}{
	{[]string{"NodeUnschedulable", "TaintToleration"}, uncordon},
	{[]string{"TaintToleration"}, removeTaint},
	{[]string{"VolumeTopology"}, addVolume},
	{[]string{"VolumeTopology"}, addCapacity},
	{[]string{"VolumeTopology"}, shrinkClaim},
	{[]string{"NodeAffinity"}, labelNode},
	{[]string{"NodeResourcesFit"}, lowerRequest},
}

// simulated bounds how many changes of a kind are simulated, each of which runs the filters on one node.
const simulated = 32

// changes returns the changes that help: of each proposal the smallest, on the first node by name.
func changes(ctx context.Context, p *podAnswer) ([]change, error) {
	if len(p.verdict.Everywhere) > 0 || len(p.verdict.Gates) > 0 {
		return nil, nil
	}
	var helping []change
	for _, proposal := range proposals {
		var proposed []change
		for _, n := range p.verdict.Nodes {
			if !slices.ContainsFunc(n.Reasons, func(r simulate.Reason) bool { return !slices.Contains(proposal.reasons, r.Plugin) }) {
				proposed = append(proposed, proposal.propose(p, n)...)
			}
		}
		slices.SortStableFunc(proposed, func(a, b change) int { return cmp.Compare(a.cost, b.cost) })
		for _, c := range proposed[:min(len(proposed), simulated)] {
			helps, err := p.helps(ctx, c)
			if err != nil {
				return nil, err
			}
			if helps {
				helping = append(helping, c)
				break
			}
		}
	}
	return helping, nil
}

// helps simulates a change.
func (p *podAnswer) helps(ctx context.Context, c change) (bool, error) {
	if c.object != nil {
		undo := p.Simulator.Try(c.object)
		defer undo()
	}
	if p.Simulator.Lacks(ctx, c.pod, c.Node) {
		return false, nil
	}
	verdict, err := p.Simulator.CheckNode(ctx, c.pod, c.Node)
	if err != nil {
		return false, fmt.Errorf("simulate %q: %w", c.Text, err)
	}
	return verdict.Fits(), nil
}

// on makes a change of an object for a node.
func (p *podAnswer) on(n simulate.NodeReasons, kind string, object snapshot.Object, text string, args ...any) []change {
	return []change{{PodChange: inspect.PodChange{Kind: kind, Node: n.Node.Name, Text: fmt.Sprintf(text, args...)}, object: object, pod: p.Pod}}
}

func uncordon(p *podAnswer, n simulate.NodeReasons) []change {
	if !n.Node.Spec.Unschedulable {
		return nil
	}
	node := n.Node.DeepCopy()
	node.Spec.Unschedulable = false
	// The node controller removes the taint.
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
	return p.on(n, "Uncordon", node, "uncordon node %s", node.Name)
}

func removeTaint(p *podAnswer, n simulate.NodeReasons) []change {
	taints := untolerated(p.Pod, n.Node)
	// Kubernetes adds its own taints again until their cause is gone.
	if len(taints) != 1 || strings.HasPrefix(taints[0].Key, "node.kubernetes.io/") {
		return nil
	}
	node := n.Node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taints[0]) })
	return p.on(n, "RemoveTaint", node, "remove taint %s from node %s, or tolerate it", taints[0].ToString(), node.Name)
}

// lacking returns the claim that has no volume on a node, and why.
func (p *podAnswer) lacking(n simulate.NodeReasons, code match.ReasonCode) *corev1.PersistentVolumeClaim {
	for _, r := range n.Reasons {
		if r.Volumes.Code == code {
			return p.storage.claims[r.Volumes.Claim]
		}
	}
	return nil
}

func addVolume(p *podAnswer, n simulate.NodeReasons) []change {
	claim := p.lacking(n, match.NoVolume)
	host := n.Node.Labels[corev1.LabelHostname]
	if claim == nil || host == "" {
		return nil
	}
	request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	class := match.ClaimClass(claim)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "simulated-" + string(p.Pod.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: request}, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			StorageClassName: class, VolumeAttributesClassName: claim.Spec.VolumeAttributesClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/simulated"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	labels := ""
	if selector := claim.Spec.Selector; selector != nil && (len(selector.MatchLabels) > 0 || len(selector.MatchExpressions) > 0) {
		if len(selector.MatchExpressions) > 0 {
			return nil // which labels it takes is not for one answer
		}
		pv.Labels = selector.MatchLabels
		labels = " and labels " + metav1.FormatLabelSelector(selector)
	}
	return p.on(n, "AddVolume", pv, "add a volume of at least %s in class %s%s on node %s, for claim %s", format.Size(request.Value()), class, labels, n.Node.Name, claim.Name)
}

func addCapacity(p *podAnswer, n simulate.NodeReasons) []change {
	claim := p.lacking(n, match.NotEnoughSpace)
	if claim == nil {
		return nil
	}
	class := match.ClaimClass(claim)
	best, _ := p.storage.bestCapacity([]simulate.NodeReasons{n}, class)
	request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if best == nil || best.Capacity == nil {
		return nil
	}
	var all []change
	// What is held for other claims is added, if that alone is missing.
	for _, bytes := range []int64{request.Value(), best.Capacity.Value() + request.Value()} {
		more := best.DeepCopy()
		more.Capacity = resource.NewQuantity(bytes, resource.BinarySI)
		if more.MaximumVolumeSize != nil && more.MaximumVolumeSize.Value() < request.Value() {
			more.MaximumVolumeSize = more.Capacity
		}
		added := p.on(n, "AddCapacity", more, "free or add capacity of class %s for node %s, until the driver reports %s, for claim %s", class, n.Node.Name, format.Size(bytes), claim.Name)
		added[0].cost = bytes - best.Capacity.Value()
		all = append(all, added...)
	}
	return all
}

func shrinkClaim(p *podAnswer, n simulate.NodeReasons) []change {
	claim, bytes := p.lacking(n, match.NoVolume), int64(0)
	if claim != nil {
		bytes = p.storage.freeOn(n.Node.Name, claim)
	} else if claim = p.lacking(n, match.NotEnoughSpace); claim != nil {
		if best, _ := p.storage.bestCapacity([]simulate.NodeReasons{n}, match.ClaimClass(claim)); best != nil {
			bytes = available(best)
		}
	}
	if claim == nil || bytes == 0 || bytes >= claim.Spec.Resources.Requests.Storage().Value() {
		return nil
	}
	smaller := claim.DeepCopy()
	smaller.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(bytes, resource.BinarySI)
	shrunk := p.on(n, "ShrinkClaim", smaller, "recreate claim %s with a request of at most %s, for node %s", claim.Name, format.Size(bytes), n.Node.Name)
	shrunk[0].cost = claim.Spec.Resources.Requests.Storage().Value() - bytes
	return shrunk
}

// labelNode proposes the labels that the pod's nodeSelector requires.
func labelNode(p *podAnswer, n simulate.NodeReasons) []change {
	node := n.Node.DeepCopy()
	var set []string
	for _, key := range slices.Sorted(maps.Keys(p.Pod.Spec.NodeSelector)) {
		if value := p.Pod.Spec.NodeSelector[key]; node.Labels[key] != value {
			metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
			set = append(set, key+"="+value)
		}
	}
	if len(set) == 0 || slices.ContainsFunc(set, func(l string) bool { return strings.HasPrefix(l, corev1.LabelHostname+"=") }) {
		return nil
	}
	return p.on(n, "LabelNode", node, "label node %s with %s, which the pod's nodeSelector requires", node.Name, strings.Join(set, ","))
}

// lowerRequest proposes to request what is free on the node.
func lowerRequest(p *podAnswer, n simulate.NodeReasons) []change {
	var all []change
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		free, wanted := n.Free[name], requestOf(p.Pod, name)
		// The request of a single container can be lowered without a choice.
		if free.Sign() <= 0 || wanted.Cmp(free) <= 0 || len(p.Pod.Spec.Containers) != 1 || len(p.Pod.Spec.InitContainers) > 0 || p.Pod.Spec.Resources != nil {
			continue
		}
		lower := p.Pod.DeepCopy()
		rest := free.DeepCopy()
		rest.Sub(p.Pod.Spec.Overhead[name])
		lower.Spec.Containers[0].Resources.Requests[name] = rest
		less := wanted.DeepCopy()
		less.Sub(free)
		all = append(all, change{pod: lower, cost: less.MilliValue(), PodChange: inspect.PodChange{
			Kind: "LowerRequest", Node: n.Node.Name,
			Text: fmt.Sprintf("request at most %s of %s, for node %s, or free %s there", rest.String(), name, n.Node.Name, less.String()),
		}})
	}
	return all
}

// requestOf returns what the containers of a pod request of a resource, as the scheduler sums it.
func requestOf(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})[name]
}
