// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/scheduling/volumecache/attempt"
)

// Reason is why a plugin keeps a pod off a node, or off all nodes.
type Reason struct {
	// Plugin is its name.
	Plugin string
	// Messages are those of its status, for users.
	Messages []string
	// Resolvable: evicting pods may help.
	Resolvable bool
	// Volumes is what VolumeTopology found, with the claim and the volume; the zero value for other plugins.
	Volumes match.Reason
}

// Verdict is what the plugins of a profile say about a pod.
type Verdict struct {
	// Gates are why the pod is not in the scheduler's queue: plugins of PreEnqueue, such as scheduling gates.
	Gates []Reason
	// Everywhere are reasons on all nodes: PreFilter of the plugin rejected the pod.
	Everywhere []Reason
	// Nodes are the reasons of each node besides those, sorted by name. A pod without Gates and Everywhere fits
	// the nodes without reasons.
	Nodes []NodeReasons
}

// NodeReasons are the reasons of a node, in the order of the profile's plugins.
type NodeReasons struct {
	Node    *corev1.Node
	Reasons []Reason
	// Free is what the pods on the node leave of its allocatable CPU and memory.
	Free corev1.ResourceList
}

// Fits reports whether the scheduler would place the pod on some node.
func (v *Verdict) Fits() bool {
	return len(v.Gates) == 0 && len(v.Everywhere) == 0 && slices.ContainsFunc(v.Nodes, func(n NodeReasons) bool { return len(n.Reasons) == 0 })
}

// Check runs each Filter plugin of the profile by itself on each node, with and without the pods that are nominated to it,
// as the scheduler does. An error means that a plugin could not decide.
func (s *Simulator) Check(ctx context.Context, pod *corev1.Pod) (*Verdict, error) {
	return s.check(ctx, pod, func(*corev1.Node) bool { return true })
}

// CheckNode is Check for one node.
func (s *Simulator) CheckNode(ctx context.Context, pod *corev1.Pod, node string) (*Verdict, error) {
	return s.check(ctx, pod, func(n *corev1.Node) bool { return n.Name == node })
}

// Lacks reports whether the pod's claims alone keep it off a node, of which the simulation may have another version. It
// takes a small part of the time of CheckNode. It is false without VolumeTopology.
func (s *Simulator) Lacks(ctx context.Context, pod *corev1.Pod, node string) bool {
	if s.volumes == nil || !slices.Contains(s.filters, configv1.PluginName) {
		return false
	}
	begun, refusal, err := attempt.Begin(silent(ctx), s.volumes, pod)
	if refusal != nil || err != nil || begun.Demand == nil {
		return false
	}
	object, exists, _ := s.informers[reflect.TypeFor[*corev1.Node]()].indexer.GetByKey(node)
	return exists && s.volumes.Fits(begun.Demand, object.(*corev1.Node)).Code != match.Fits
}

func (s *Simulator) check(ctx context.Context, pod *corev1.Pod, wanted func(*corev1.Node) bool) (*Verdict, error) {
	ctx = silent(ctx)
	v := &Verdict{}
	for _, gate := range s.framework.PreEnqueuePlugins() {
		if status := gate.PreEnqueue(ctx, pod); !status.IsSuccess() {
			v.Gates = append(v.Gates, reasonOf(gate.Name(), status))
		}
	}
	all, err := s.refresh(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.prefilter(ctx, pod, all)
	if err != nil {
		return nil, err
	}
	v.Everywhere = p.rejected
	all = slices.DeleteFunc(slices.Clone(all), func(info fwk.NodeInfo) bool { return !wanted(info.Node()) })
	v.Nodes = make([]NodeReasons, len(all))
	errs := make([]error, len(all))
	s.framework.Parallelizer().Until(ctx, len(all), func(i int) {
		reasons, err := s.filter(ctx, pod, p, all[i])
		if err != nil {
			errs[i] = fmt.Errorf("node %s: %w", all[i].Node().Name, err)
		}
		v.Nodes[i] = NodeReasons{Node: all[i].Node(), Reasons: reasons, Free: free(all[i])}
	}, "check")
	if err := cmp.Or(context.Cause(ctx), errors.Join(errs...)); err != nil {
		return nil, err
	}
	slices.SortFunc(v.Nodes, func(a, b NodeReasons) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	return v, nil
}

// refresh updates the nodes of the scheduling cycle.
func (s *Simulator) refresh(ctx context.Context) ([]fwk.NodeInfo, error) {
	if err := s.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), s.nodes); err != nil {
		return nil, fmt.Errorf("update the snapshot of nodes: %w", err)
	}
	return s.nodes.NodeInfos().List()
}

// prefiltered is the result of PreFilter. Filters of several nodes read it at the same time.
type prefiltered struct {
	state *framework.CycleState
	// only are copies of the state that skip all plugins but one, by its name.
	only     map[string]fwk.CycleState
	rejected []Reason
	// skipped are the plugins whose Filter must not run, because they have nothing to do or rejected the pod.
	skipped sets.Set[string]
	// narrowed are the nodes of plugins that accept some nodes only.
	narrowed map[string]sets.Set[string]
	// demand is the pod's claims; nil without VolumeTopology, and for claims that it rejects.
	demand *volumecache.Demand
}

func (s *Simulator) prefilter(ctx context.Context, pod *corev1.Pod, all []fwk.NodeInfo) (*prefiltered, error) {
	p := &prefiltered{state: framework.NewCycleState(), skipped: sets.New[string](), narrowed: map[string]sets.Set[string]{}}
	if s.volumes != nil {
		if begun, refusal, err := attempt.Begin(ctx, s.volumes, pod); refusal == nil && err == nil {
			p.demand = begun.Demand
		}
	}
	for _, plugin := range s.prefilters {
		result, status := plugin.PreFilter(ctx, p.state, pod, all)
		switch {
		case status.IsSuccess():
			if !result.AllNodes() {
				p.narrowed[plugin.Name()] = result.NodeNames
			}
			continue
		case status.IsSkip():
		case status.IsRejected() && plugin.Name() == configv1.PluginName && p.demand != nil:
			// No node fits; Filter says why each does not.
			p.narrowed[plugin.Name()] = nil
			continue
		case status.IsRejected():
			p.rejected = append(p.rejected, reasonOf(plugin.Name(), status))
		default:
			return nil, fmt.Errorf("plugin %s: %w", plugin.Name(), status.AsError())
		}
		p.skipped.Insert(plugin.Name())
	}
	p.state.SetSkipFilterPlugins(p.skipped)
	p.only = map[string]fwk.CycleState{}
	for _, name := range s.filters {
		if !p.skipped.Has(name) {
			p.only[name] = p.state.Clone()
			p.only[name].SetSkipFilterPlugins(sets.New(s.filters...).Delete(name))
		}
	}
	return p, nil
}

// filter returns the reasons of a node. It is safe for concurrent use.
func (s *Simulator) filter(ctx context.Context, pod *corev1.Pod, p *prefiltered, info fwk.NodeInfo) ([]Reason, error) {
	status := s.framework.RunFilterPluginsWithNominatedPods(ctx, p.state, pod, info)
	if status.IsSuccess() {
		return s.outside(p, info.Node().Name, nil), nil
	}
	if !status.IsRejected() {
		return nil, status.AsError()
	}
	var reasons []Reason
	for _, name := range s.filters {
		state := p.only[name]
		if state == nil {
			continue
		}
		status := s.framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
		switch {
		case status.IsSuccess():
		case status.IsRejected():
			reason := reasonOf(name, status)
			if name == configv1.PluginName && p.demand != nil {
				reason.Volumes = s.volumes.Fits(p.demand, info.Node())
			}
			reasons = append(reasons, reason)
		default:
			return nil, status.AsError()
		}
	}
	return s.outside(p, info.Node().Name, reasons), nil
}

// outside adds a reason for each plugin that accepts other nodes only, unless it has given one.
func (s *Simulator) outside(p *prefiltered, node string, reasons []Reason) []Reason {
	for _, plugin := range s.prefilters {
		nodes, narrowed := p.narrowed[plugin.Name()]
		given := slices.ContainsFunc(reasons, func(r Reason) bool { return r.Plugin == plugin.Name() })
		if narrowed && !given && !nodes.Has(node) {
			reasons = append(reasons, Reason{Plugin: plugin.Name(), Messages: []string{"node(s) didn't satisfy plugin " + plugin.Name()}})
		}
	}
	return reasons
}

func reasonOf(plugin string, status *fwk.Status) Reason {
	return Reason{Plugin: plugin, Messages: status.Reasons(), Resolvable: status.Code() == fwk.Unschedulable}
}

func free(info fwk.NodeInfo) corev1.ResourceList {
	allocatable, requested := info.GetAllocatable(), info.GetRequested()
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(allocatable.GetMilliCPU()-requested.GetMilliCPU(), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(allocatable.GetMemory()-requested.GetMemory(), resource.BinarySI),
	}
}
