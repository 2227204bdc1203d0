// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

// storage is what there is for the claims of a pod.
type storage struct {
	snapshot *snapshot.Snapshot
	pod      *corev1.Pod
	claims   map[string]*corev1.PersistentVolumeClaim // of the pod, by name
	index    *topology.Index[struct{}]
	volumes  map[string][]volume // by class
	// capacities are the best of each node, by class, and free the sizes of largestFree, by claim. They are filled
	// when they are needed.
	capacities map[string]map[string]*storagev1.CSIStorageCapacity
	free       map[string]func(node string) int64
}

// volume is a volume with the nodes that can use it.
type volume struct {
	*match.Volume
	at *topology.Segment[struct{}] // nil: all nodes
}

// reaches reports whether one of the nodes can use the volume.
func (v volume) reaches(nodes map[string]bool) bool {
	if v.at == nil {
		return true
	}
	for name := range v.at.Nodes {
		if nodes[name] {
			return true
		}
	}
	return false
}

func newStorage(s *snapshot.Snapshot, pod *corev1.Pod) *storage {
	st := &storage{snapshot: s, pod: pod, claims: map[string]*corev1.PersistentVolumeClaim{}, index: topology.NewIndex[struct{}](), volumes: map[string][]volume{},
		capacities: map[string]map[string]*storagev1.CSIStorageCapacity{}, free: map[string]func(string) int64{}}
	used := map[string]bool{}
	for use := range claims.Used(pod) {
		used[use.Name] = true
	}
	classes := map[string]bool{}
	for _, claim := range snapshot.Of[*corev1.PersistentVolumeClaim](s) {
		if claim.Namespace == pod.Namespace && used[claim.Name] {
			st.claims[claim.Name] = claim
			classes[match.ClaimClass(claim)] = true
		}
	}
	for _, node := range snapshot.Of[*corev1.Node](s) {
		st.index.SetNode(node)
	}
	for _, pv := range snapshot.Of[*corev1.PersistentVolume](s) {
		class := match.VolumeClass(pv)
		if !classes[class] {
			continue
		}
		v := volume{Volume: match.NewVolume(pv)}
		if pv.Spec.NodeAffinity != nil && pv.Spec.NodeAffinity.Required != nil {
			v.at = st.index.Acquire(topology.FromNodeAffinity(pv.Spec.NodeAffinity))
		}
		st.volumes[class] = append(st.volumes[class], v)
	}
	return st
}

// podClaims returns the claims of the pod.
func (st *storage) podClaims() []inspect.PodClaim {
	var all []inspect.PodClaim
	for use := range claims.Used(st.pod) {
		if !slices.ContainsFunc(all, func(c inspect.PodClaim) bool { return c.Name == use.Name }) {
			all = append(all, st.podClaim(use.Name))
		}
	}
	return all
}

func (st *storage) podClaim(name string) inspect.PodClaim {
	claim := st.claims[name]
	if claim == nil {
		if !snapshot.Complete[*corev1.PersistentVolumeClaim](st.snapshot) {
			return inspect.PodClaim{Name: name, State: "could not be read"}
		}
		return inspect.PodClaim{Name: name, State: "does not exist"}
	}
	request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	c := inspect.PodClaim{Name: name, Class: match.ClaimClass(claim), Request: request.String(), Volume: claim.Spec.VolumeName}
	class := snapshot.Find[*storagev1.StorageClass](st.snapshot, "", c.Class)
	late := claims.LateBinding(class)
	switch node := claim.Annotations[plan.AnnSelectedNode]; {
	case claim.DeletionTimestamp != nil:
		c.State = "is being deleted"
	case plan.IsBound(claim):
		c.State = "is bound to " + c.Volume + st.whereIs(c.Volume)
	case c.Volume != "":
		c.State = "waits for the PV controller to bind it to " + c.Volume
	case c.Class != "" && class == nil && !snapshot.Complete[*storagev1.StorageClass](st.snapshot):
		c.State = "is not bound; its class could not be read"
	case c.Class != "" && class == nil:
		c.State = "has class " + c.Class + ", which does not exist"
	case node != "" && class != nil:
		c.State = "waits for " + class.Provisioner + " to provision a volume for node " + node
	case late:
		c.State = "waits for a node of the pod"
	default:
		c.State = "waits for the PV controller"
	}
	return c
}

// whereIs returns " on node X" for a volume of few nodes.
func (st *storage) whereIs(name string) string {
	for _, volumes := range st.volumes {
		for _, v := range volumes {
			if v.Name == name && v.at != nil && v.at.Len() <= 3 {
				nodes := slices.Sorted(v.at.Nodes)
				if len(nodes) == 0 {
					return ", which no node can use"
				}
				return " on " + format.List(nodes, 3)
			}
		}
	}
	return ""
}

// detail is what the nodes of a group have for a claim.
func (st *storage) detail(g *group, reason match.Reason) string {
	claim := st.claims[reason.Claim]
	if claim == nil {
		return ""
	}
	switch reason.Code {
	case match.NoVolume:
		return st.offers(g, claim)
	case match.NotEnoughSpace:
		return st.capacity(g, claim, reason.Held)
	case match.NodeNotSelected:
		return "a volume is being provisioned for node " + claim.Annotations[plan.AnnSelectedNode]
	case match.NodeConflict, match.DiskMissing, match.DiskFailing, match.DiskReplaced, match.DiskUnproven:
		return "volume " + claim.Spec.VolumeName + st.whereIs(claim.Spec.VolumeName)
	default:
		if reason.Volume != "" {
			return "volume " + reason.Volume
		}
		return ""
	}
}

// offers describes the volumes that the nodes of a group have of a claim's class.
func (st *storage) offers(g *group, claim *corev1.PersistentVolumeClaim) string {
	request, err := match.NewRequest(claim)
	if err != nil {
		return err.Error()
	}
	nodes := map[string]bool{}
	for _, n := range g.nodes {
		nodes[n.Node.Name] = true
	}
	var free, fitting, cleaning int
	var largest volume
	var reserved []string
	for _, v := range st.volumes[request.Class] {
		if !v.reaches(nodes) {
			continue
		}
		switch use := localdisks.UseOf(v.PV); {
		case v.Free():
			free++
			if largest.Volume == nil || v.Bytes > largest.Bytes {
				largest = v
			}
			if request.Matches(v.Volume) {
				fitting++
			}
		case use == localdisks.Cleaning:
			cleaning++
		case use == localdisks.Reserved && v.Bytes >= request.Bytes:
			reserved = append(reserved, v.PV.Spec.ClaimRef.Namespace+"/"+v.PV.Spec.ClaimRef.Name)
		}
	}
	parts := []string{fmt.Sprintf("it requests %s of class %s", format.Size(request.Bytes), cmp.Or(request.Class, `""`))}
	switch {
	case free == 0:
		parts = append(parts, "no volume is free")
	case fitting > 0:
		parts = append(parts, format.Count(fitting, "free volume")+" would fit, needed for the other claims of the pod or for nominated pods")
	case largest.Bytes < request.Bytes:
		where := ""
		if len(g.nodes) > 1 && largest.at != nil && largest.at.Len() == 1 {
			where = " (" + slices.Collect(largest.at.Nodes)[0] + ")"
		}
		parts = append(parts, fmt.Sprintf("%s free, the largest %s%s", isAre(free, "volume"), format.Size(largest.Bytes), where))
	default:
		parts = append(parts, isAre(free, "volume")+" free, with other modes or labels than the claim's")
	}
	if len(reserved) > 0 {
		slices.Sort(reserved)
		parts = append(parts, format.Count(len(reserved), "volume")+" reserved for "+format.List(slices.Compact(reserved), 3))
	}
	if cleaning > 0 {
		parts = append(parts, isAre(cleaning, "volume")+" being cleaned")
	}
	return strings.Join(parts, "; ")
}

func isAre(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return format.Count(n, noun) + " are"
}

// capacity describes the capacity that the nodes of a group have for a claim.
func (st *storage) capacity(g *group, claim *corev1.PersistentVolumeClaim, held bool) string {
	request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	best, node := st.bestCapacity(g.nodes, match.ClaimClass(claim))
	text := fmt.Sprintf("it requests %s of class %s; ", format.Size(request.Value()), match.ClaimClass(claim))
	if best == nil {
		return text + "the driver reports no capacity"
	}
	at := ""
	if len(g.nodes) > 1 {
		at = " at most (" + node + ")"
	}
	text += fmt.Sprintf("the driver reports %s%s", format.Size(available(best)), at)
	if held {
		text += ", a part of which is held for volumes that are being provisioned"
	}
	return text
}

// available returns the size of the largest volume that can be provisioned.
func available(c *storagev1.CSIStorageCapacity) int64 {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize.Value()
	}
	if c.Capacity != nil {
		return c.Capacity.Value()
	}
	return 0
}

// bestCapacity returns the capacity with the largest volume that a node of a list can have of a class.
func (st *storage) bestCapacity(nodes []simulate.NodeReasons, class string) (best *storagev1.CSIStorageCapacity, at string) {
	if st.capacities[class] == nil {
		bySegment := map[*topology.Segment[struct{}]]*storagev1.CSIStorageCapacity{}
		for _, c := range snapshot.Of[*storagev1.CSIStorageCapacity](st.snapshot) {
			if c.StorageClassName == class {
				segment := st.index.Acquire(topology.FromLabelSelector(c.NodeTopology))
				bySegment[segment] = larger(bySegment[segment], c)
			}
		}
		st.capacities[class] = byNode(bySegment, larger)
	}
	for _, n := range nodes {
		if c := larger(best, st.capacities[class][n.Node.Name]); c != best {
			best, at = c, n.Node.Name
		}
	}
	return best, at
}

// larger returns the capacity with the larger volume, a if they are equal. Each may be nil.
func larger(a, b *storagev1.CSIStorageCapacity) *storagev1.CSIStorageCapacity {
	if a == nil || b != nil && available(b) > available(a) {
		return b
	}
	return a
}

// byNode returns the best that each node has of what segments have.
func byNode[T any](bySegment map[*topology.Segment[struct{}]]T, best func(a, b T) T) map[string]T {
	nodes := map[string]T{}
	for segment, value := range bySegment {
		for node := range segment.Nodes {
			nodes[node] = best(nodes[node], value)
		}
	}
	return nodes
}

// freeOn is largestFree for one node.
func (st *storage) freeOn(node string, claim *corev1.PersistentVolumeClaim) int64 {
	if st.free[claim.Name] == nil {
		nodes, everywhere := st.largestFree(claim)
		st.free[claim.Name] = func(node string) int64 { return max(nodes[node], everywhere) }
	}
	return st.free[claim.Name](node)
}

// largestFree returns the size of the largest free volume of each node that differs from what a claim requests by its
// size only, and that of the largest one that all nodes can use.
func (st *storage) largestFree(claim *corev1.PersistentVolumeClaim) (nodes map[string]int64, everywhere int64) {
	unsized := claim.DeepCopy()
	unsized.Spec.Resources.Requests = nil
	request, err := match.NewRequest(unsized)
	if err != nil {
		return nil, 0
	}
	bySegment := map[*topology.Segment[struct{}]]int64{}
	for _, v := range st.volumes[request.Class] {
		switch {
		case !v.Free() || !request.Matches(v.Volume):
		case v.at == nil:
			everywhere = max(everywhere, v.Bytes)
		default:
			bySegment[v.at] = max(bySegment[v.at], v.Bytes)
		}
	}
	return byNode(bySegment, func(a, b int64) int64 { return max(a, b) }), everywhere
}
