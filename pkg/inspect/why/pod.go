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
	"k8s.io/klog/v2"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// PodQuestion is the question why a pod waits.
type PodQuestion struct {
	Snapshot *snapshot.Snapshot
	Pod      *corev1.Pod
	// Simulator runs the pod's profile on the snapshot. It is nil for a pod that has a node.
	Simulator *simulate.Simulator
	// Profile is where the profile is from, and Extenders the URLs of its extenders, which are not called.
	Profile   string
	Extenders []string
}

// Pod answers why a pod waits. It may change the simulation, and undoes its changes. An error means that a plugin
// could not decide.
func Pod(ctx context.Context, q PodQuestion) (*inspect.PodReport, error) {
	p, err := answer(ctx, q)
	if err != nil {
		return nil, err
	}
	return p.report, nil
}

func answer(ctx context.Context, q PodQuestion) (*podAnswer, error) {
	storage := newStorage(q.Snapshot, q.Pod)
	decisive := storage.decisive()
	p := &podAnswer{PodQuestion: q, storage: storage, decisive: decisive, report: &inspect.PodReport{
		TypeMeta: inspect.Type("PodReport"), Namespace: q.Pod.Namespace, Name: q.Pod.Name,
		Scheduler: q.Pod.Spec.SchedulerName, Profile: q.Profile, Unseen: snapshot.Unseen(q.Snapshot, decisive...),
	}}
	p.report.Claims = p.storage.podClaims()
	if q.Pod.Spec.NodeName != "" {
		p.placed()
		return p, nil
	}
	verdict, err := q.Simulator.Check(ctx, q.Pod)
	if err != nil {
		return nil, fmt.Errorf("simulate the scheduler of pod %s: %w", klog.KObj(q.Pod), err)
	}
	p.verdict = verdict
	p.reasons()
	p.conclude()
	if p.report.State == inspect.PodUnschedulable {
		p.changes, err = changes(ctx, p)
	}
	for _, c := range p.changes {
		p.report.Changes = append(p.report.Changes, c.PodChange)
	}
	p.notes()
	return p, err
}

// podAnswer is an answer in the making.
type podAnswer struct {
	PodQuestion
	storage  *storage
	decisive []snapshot.Kind // of storage
	verdict  *simulate.Verdict
	changes  []change
	report   *inspect.PodReport
}

// placed answers for a pod that has a node.
func (p *podAnswer) placed() {
	p.report.State = inspect.PodPlaced
	switch {
	case p.Pod.DeletionTimestamp != nil:
		p.say("Pod %s is on node %s, and is being deleted.", klog.KObj(p.Pod), p.Pod.Spec.NodeName)
	case p.Pod.Status.Phase != corev1.PodPending:
		p.say("Pod %s is on node %s, and is %s.", klog.KObj(p.Pod), p.Pod.Spec.NodeName, strings.ToLower(string(p.Pod.Status.Phase)))
	default:
		p.say("Pod %s has a place on node %s, and its containers do not run yet: see the kubelet's events in kubectl describe pod.", klog.KObj(p.Pod), p.Pod.Spec.NodeName)
	}
}

func (p *podAnswer) say(sentence string, args ...any) {
	p.report.Sentence = fmt.Sprintf(sentence, args...)
}

// reasons fills everywhere and groups.
func (p *podAnswer) reasons() {
	said := map[string]bool{}
	for _, r := range slices.Concat(p.verdict.Gates, p.verdict.Everywhere) {
		if !p.sees(r) {
			continue
		}
		for _, message := range r.Messages {
			if said[message] {
				continue
			}
			said[message] = true
			p.report.Everywhere = append(p.report.Everywhere, inspect.PodReason{Plugin: r.Plugin, Message: message, Link: guide.Pods.Link()})
		}
	}
	groups := map[string]*group{}
	var order []*group
	for _, n := range p.verdict.Nodes {
		// Several plugins look up the same object.
		n.Reasons = slices.DeleteFunc(n.Reasons, func(r simulate.Reason) bool {
			return !p.sees(r) || slices.ContainsFunc(r.Messages, func(m string) bool { return repeats(m, said) })
		})
		key := groupKey(n.Reasons)
		g := groups[key]
		if g == nil {
			g = &group{reasons: n.Reasons}
			groups[key] = g
			order = append(order, g)
		}
		g.nodes = append(g.nodes, n)
	}
	slices.SortStableFunc(order, func(a, b *group) int { return cmp.Compare(len(b.nodes), len(a.nodes)) })
	for _, g := range order {
		out := inspect.NodeGroup{}
		for _, n := range g.nodes {
			out.Nodes = append(out.Nodes, n.Node.Name)
		}
		for _, r := range g.reasons {
			for _, message := range r.Messages {
				out.Reasons = append(out.Reasons, inspect.PodReason{Plugin: r.Plugin, Message: message, Claim: r.Volumes.Claim, Detail: p.detail(g, r, message), Link: linkOf(r)})
			}
		}
		p.report.Groups = append(p.report.Groups, out)
	}
}

// sees reports whether all objects that a plugin decides by are in the snapshot: else its reason may be wrong.
func (p *podAnswer) sees(r simulate.Reason) bool {
	var kinds []snapshot.Kind
	switch r.Plugin {
	case configv1.PluginName, "VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits", "DynamicResources":
		kinds = p.decisive
	case "InterPodAffinity", "PodTopologySpread":
		kinds = []snapshot.Kind{snapshot.KindOf[*corev1.Pod](), snapshot.KindOf[*corev1.Node](), snapshot.KindOf[*corev1.Namespace]()}
	}
	return !slices.ContainsFunc(kinds, func(k snapshot.Kind) bool { return !p.Snapshot.CompleteOf(k) })
}

// repeats reports whether a message contains one that holds on all nodes.
func repeats(message string, said map[string]bool) bool {
	for other := range said {
		if strings.Contains(message, other) {
			return true
		}
	}
	return false
}

// group is nodes with equal reasons.
type group struct {
	nodes   []simulate.NodeReasons
	reasons []simulate.Reason
}

// groupKey is equal for equal reasons. Volumes of different nodes are not compared.
func groupKey(reasons []simulate.Reason) string {
	var key strings.Builder
	for _, r := range reasons {
		fmt.Fprintf(&key, "%s\x00%q\x00%s\x00%d\x00", r.Plugin, r.Messages, r.Volumes.Claim, r.Volumes.Code)
	}
	return key.String()
}

// linkOf returns the page about a reason; empty for reasons that have nothing to do with volumes.
func linkOf(r simulate.Reason) string {
	if r.Volumes.Code == match.Fits {
		return ""
	}
	return guide.Pods.Link()
}

// detail is what there is on the nodes of a group.
func (p *podAnswer) detail(g *group, r simulate.Reason, message string) string {
	if r.Volumes.Code != match.Fits {
		return p.storage.detail(g, r.Volumes)
	}
	if r.Plugin == "TaintToleration" {
		return p.taints(g)
	}
	for name, short := range map[corev1.ResourceName]string{corev1.ResourceCPU: "Insufficient cpu", corev1.ResourceMemory: "Insufficient memory"} {
		if message != short {
			continue
		}
		most := slices.MaxFunc(g.nodes, func(a, b simulate.NodeReasons) int {
			x, y := a.Free[name], b.Free[name]
			return x.Cmp(y)
		})
		wanted, free := requestOf(p.Pod, name), most.Free[name]
		if len(g.nodes) == 1 {
			return fmt.Sprintf("the pod requests %s, and %s is free", wanted.String(), free.String())
		}
		return fmt.Sprintf("the pod requests %s, and at most %s is free (%s)", wanted.String(), free.String(), most.Node.Name)
	}
	return ""
}

// taints are those of the nodes of a group that the pod does not tolerate.
func (p *podAnswer) taints(g *group) string {
	found := map[string]bool{}
	for _, n := range g.nodes {
		for _, taint := range untolerated(p.Pod, n.Node) {
			found[taint.ToString()] = true
		}
	}
	return format.List(slices.Sorted(maps.Keys(found)), 4)
}

// untolerated returns the taints of a node that keep the pod off.
func untolerated(pod *corev1.Pod, node *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectPreferNoSchedule || slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool {
			return o.ToleratesTaint(klog.Background(), &t, true)
		})
	})
}

// conclude sets the state and the sentence.
func (p *podAnswer) conclude() {
	report, name := p.report, klog.KObj(p.Pod)
	var fit []string
	for _, g := range report.Groups {
		if len(g.Reasons) == 0 {
			fit = g.Nodes
		}
	}
	switch {
	case len(p.verdict.Gates) > 0:
		report.State = inspect.PodGated
		p.say("Pod %s is not in the queue of scheduler %s: %s.", name, p.Pod.Spec.SchedulerName, messages(p.verdict.Gates))
	case len(report.Unseen) > 0:
		report.State = inspect.PodUnknown
		p.say("Where pod %s fits cannot be said, because these could not be read: %s. %s", name, format.List(report.Unseen, 4), p.condition())
	case len(p.verdict.Nodes) == 0:
		report.State = inspect.PodUnschedulable
		p.say("Pod %s waits: the cluster has no nodes.", name)
	case len(p.verdict.Everywhere) > 0:
		report.State = inspect.PodUnschedulable
		p.say("Pod %s waits, wherever it would run: %s.", name, messages(p.verdict.Everywhere))
	case len(fit) > 0 && len(p.Extenders) > 0:
		report.State = inspect.PodUnknown
		p.say("The scheduler's plugins accept %s for pod %s; extenders decide, too, and were not called. %s", format.List(fit, 3), name, p.condition())
	case len(fit) > 0:
		report.State = inspect.PodFits
		p.say("Pod %s fits %s. %s", name, format.List(fit, 3), p.notPlaced())
	default:
		report.State = inspect.PodUnschedulable
		p.say("Pod %s waits: %s. %s.", name, noneOf(len(p.verdict.Nodes)), summary(report.Groups))
	}
}

func noneOf(nodes int) string {
	if nodes == 1 {
		return "the only node does not fit"
	}
	return fmt.Sprintf("none of %d nodes fits", nodes)
}

// notPlaced is why a pod that fits is not placed.
func (p *podAnswer) notPlaced() string {
	switch c := scheduled(p.Pod); {
	case p.Pod.Status.NominatedNodeName != "":
		return fmt.Sprintf("It waits for pods that were evicted for it on node %s.", p.Pod.Status.NominatedNodeName)
	case c == nil:
		return fmt.Sprintf("No scheduler has tried to place it: check that one serves schedulerName %s, and runs (kubectl stowage status).", p.Pod.Spec.SchedulerName)
	default:
		return fmt.Sprintf("The scheduler found no node %s, and will try again: what was missing has come since.", format.Since(c.LastTransitionTime.Time, p.Snapshot.Time))
	}
}

// condition is what the scheduler has said.
func (p *podAnswer) condition() string {
	if c := scheduled(p.Pod); c != nil && c.Message != "" {
		return "The scheduler said: " + c.Message
	}
	return "No scheduler has said anything about it yet."
}

// scheduled returns the condition PodScheduled if it is False.
func scheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c
		}
	}
	return nil
}

// messages joins the messages of reasons, each once.
func messages(reasons []simulate.Reason) string {
	var all []string
	for _, r := range reasons {
		for _, m := range r.Messages {
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return strings.Join(all, "; ")
}

// summary counts the nodes by their reasons.
func summary(groups []inspect.NodeGroup) string {
	const most = 4
	var parts []string
	for _, g := range groups {
		nodes := format.List(g.Nodes, 2)
		if len(g.Nodes) > 2 {
			nodes = format.Count(len(g.Nodes), "node")
		}
		var short []string
		for _, r := range g.Reasons {
			short = append(short, strings.TrimSuffix(shorten(r), "."))
		}
		parts = append(parts, nodes+": "+strings.Join(short, ", "))
	}
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more groups of nodes", len(parts)-most))
	}
	return strings.Join(parts, "; ")
}

// phrases are what the sentence says for messages of the scheduler that users meet most.
var phrases = map[string]string{
	match.NoVolume.String():                             "no fitting volume",
	match.NotEnoughSpace.String():                       "too little capacity",
	match.NodeConflict.String():                         "the volume is on another node",
	"node(s) were unschedulable":                        "cordoned",
	"node(s) had untolerated taint(s)":                  "untolerated taint",
	"node(s) didn't match Pod's node affinity/selector": "not selected by the pod",
}

// shorten returns a reason in few words.
func shorten(r inspect.PodReason) string {
	text, common := phrases[r.Message]
	switch {
	case !common:
		text = strings.TrimPrefix(r.Message, "node(s) ")
	case r.Plugin == "TaintToleration":
		text += " " + r.Detail
	}
	if r.Claim != "" {
		text += " for claim " + r.Claim
	}
	return text
}

// notes are what limits the answer.
func (p *podAnswer) notes() {
	if len(p.Extenders) > 0 {
		p.report.Notes = append(p.report.Notes, fmt.Sprintf("The scheduler also asks extenders, which were not called: %s.", strings.Join(p.Extenders, ", ")))
	}
	if p.report.State == inspect.PodUnschedulable && len(p.report.Changes) == 0 && len(p.report.Everywhere) == 0 {
		p.report.Notes = append(p.report.Notes, "No change of a single object was found that helps.")
	}
}
