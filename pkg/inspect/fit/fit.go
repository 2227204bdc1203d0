// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fit decides how many replicas of a workload a scheduler would place on a snapshot, where, and with which
// volumes. The scheduler's own cycle places them one after another (package simulate); nothing is written.
package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Most is the largest number of replicas.
const Most = 1000

// Config is what is to be placed.
type Config struct {
	Simulate simulate.Config
	Workload *Workload
	// Beside are objects that are created before the pods. Existing claims stay as they are.
	Beside []snapshot.Object
	// Max: Workload.Replicas is a limit, and the first replica that does not fit ends it.
	Max bool
	// Configuration is where the configuration of the scheduler is from, for users.
	Configuration string
	// Extenders are the URLs of the scheduler's extenders, which a simulation cannot call.
	Extenders []string
	// Explain returns why a pod does not fit, on a snapshot that has the replicas before it, and their simulation.
	Explain func(context.Context, *corev1.Pod, *snapshot.Snapshot, *simulate.Simulator) (*v1alpha1.PodReport, error)
}

// Run places the replicas. The error is why the workload cannot be created, or why a plugin could not decide.
func Run(ctx context.Context, c Config) (*v1alpha1.Fit, error) {
	simulator, err := simulate.New(ctx, c.Simulate)
	if err != nil {
		return nil, err
	}
	r := &run{
		Config: c, simulator: simulator, snapshot: c.Simulate.Snapshot,
		claims:     snapshot.By[*corev1.PersistentVolumeClaim](c.Simulate.Snapshot),
		volumes:    snapshot.By[*corev1.PersistentVolume](c.Simulate.Snapshot),
		classes:    slices.Clone(snapshot.Of[*storagev1.StorageClass](c.Simulate.Snapshot)),
		priorities: slices.Clone(snapshot.Of[*schedulingv1.PriorityClass](c.Simulate.Snapshot)),
		report: &v1alpha1.Fit{
			TypeMeta: v1alpha1.Type("Fit"), Workload: v1alpha1.FitWorkload{Kind: c.Workload.Kind, Namespace: c.Workload.Namespace},
			Scheduler: c.Simulate.Profile.SchedulerName, Configuration: c.Configuration,
			Requested: c.Workload.Replicas, Most: c.Max, Replicas: []v1alpha1.FitReplica{},
		},
		used: map[string]bool{},
	}
	if c.Workload.Kind != "" {
		r.report.Workload.Name = c.Workload.Name
	}
	if err := r.create(); err != nil {
		return nil, err
	}
	if err := r.placeAll(ctx); err != nil {
		return nil, err
	}
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	r.conclude()
	return r.report, nil
}

type run struct {
	Config
	simulator  *simulate.Simulator
	snapshot   *snapshot.Snapshot
	claims     map[snapshot.Name]*corev1.PersistentVolumeClaim
	volumes    map[snapshot.Name]*corev1.PersistentVolume
	classes    []*storagev1.StorageClass
	priorities []*schedulingv1.PriorityClass
	report     *v1alpha1.Fit
	existing   map[int]*corev1.Pod
	used       map[string]bool // classes of the claims
	// placed are the pods that were placed, and the volumes that are reserved for them.
	placed []snapshot.Object
	// unplaced is the first replica without a node.
	unplaced *corev1.Pod
}

// create adds what exists before the pods.
func (r *run) create() error {
	for _, object := range r.Beside {
		switch o := object.(type) {
		case *storagev1.StorageClass:
			r.classes = replaced(r.classes, o)
		case *schedulingv1.PriorityClass:
			r.priorities = replaced(r.priorities, o)
		}
		if _, claim := object.(*corev1.PersistentVolumeClaim); !claim {
			r.simulator.Set(object)
		}
	}
	for _, object := range r.Beside {
		if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
			claim.UID = types.UID(simulated + "-" + claim.Name)
			if err := r.createClaim(claim); err != nil {
				return err
			}
		}
	}
	r.existing = r.Workload.existing(r.snapshot)
	if o := r.Workload.object; o != nil {
		r.simulator.Set(o)
	}
	return nil
}

// replaced returns the objects with one that replaces that of its name.
func replaced[T snapshot.Object](objects []T, object T) []T {
	rest := slices.DeleteFunc(objects, func(o T) bool { return o.GetName() == object.GetName() })
	return append(rest, object)
}

// createClaim adds a claim unless it exists.
func (r *run) createClaim(claim *corev1.PersistentVolumeClaim) error {
	name := snapshot.Name{Namespace: claim.Namespace, Name: claim.Name}
	if r.claims[name] != nil {
		return nil
	}
	admitted, err := simulate.AdmitClaim(claim, r.classes)
	if err != nil {
		return err
	}
	if err := r.checkClass(admitted); err != nil {
		return err
	}
	r.claims[name] = admitted
	r.simulator.Set(admitted)
	return nil
}

// checkClass returns an error for a claim of a class that does not exist.
func (r *run) checkClass(claim *corev1.PersistentVolumeClaim) error {
	name := match.ClaimClass(claim)
	if r.class(name) != nil || !snapshot.Complete[*storagev1.StorageClass](r.snapshot) {
		return nil
	}
	var names []string
	for _, c := range r.classes {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return fmt.Errorf("claim %s: the cluster has no StorageClass", claim.Name)
	case name == "" && claim.Spec.StorageClassName == nil:
		return fmt.Errorf("claim %s names no class, and no StorageClass is the default: name one of %s", claim.Name, format.List(names, 10))
	case name == "":
		return nil
	}
	if similar := format.Similar(name, names); len(similar) > 0 {
		names = similar
	}
	return fmt.Errorf("claim %s: there is no StorageClass %q; there is %s", claim.Name, name, format.List(names, 10))
}

func (r *run) class(name string) *storagev1.StorageClass {
	for _, c := range r.classes {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// placeAll places the replicas in order, until the result of the others is known.
func (r *run) placeAll(ctx context.Context) error {
	for i := range r.Workload.Replicas {
		if err := ctx.Err(); err != nil {
			return err
		}
		next := r.Workload.replica(i, r.existing[i])
		if next.node != "" {
			r.report.Running++
			r.add(next.pod, next.node, true)
			continue
		}
		created := r.exist(next.claims)
		if r.unplaced != nil && (r.Workload.Ordered || !created) {
			// It waits for the one before, or is equal to one that does not fit.
			r.add(next.pod, "", false)
			continue
		}
		pod, err := r.admit(next)
		if err != nil {
			return err
		}
		if r.immediate(pod) {
			return nil
		}
		node, err := r.simulator.Place(ctx, pod)
		if err != nil && !errors.Is(err, simulate.ErrNoNode) {
			return err
		}
		if err != nil && r.unplaced == nil {
			r.unplaced = pod
			if r.Max {
				return nil
			}
		}
		if err == nil {
			r.hold(pod, node)
		}
		r.add(pod, node, false)
	}
	return nil
}

// exist reports whether any of the claims exists.
func (r *run) exist(claims []*corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claims, func(c *corev1.PersistentVolumeClaim) bool {
		return r.claims[snapshot.Name{Namespace: c.Namespace, Name: c.Name}] != nil
	})
}

// admit creates the claims of a replica and returns the pod as the API server stores it.
func (r *run) admit(next replica) (*corev1.Pod, error) {
	for _, claim := range next.claims {
		if err := r.createClaim(claim); err != nil {
			return nil, err
		}
	}
	pod := next.pod
	pod.Spec.SchedulerName = r.Simulate.Profile.SchedulerName
	admitted, err := simulate.AdmitPod(pod, r.priorities)
	if err != nil {
		return nil, err
	}
	admitted.Status.Phase = corev1.PodPending
	return admitted, nil
}

// immediate notes the claims of a pod that the PV controller binds before the scheduler places the pod. It reports
// whether there are any.
func (r *run) immediate(pod *corev1.Pod) bool {
	before := len(r.report.Unknown)
	for _, claim := range r.claimsOf(pod) {
		if plan.IsBound(claim) {
			continue
		}
		name := match.ClaimClass(claim)
		class := r.class(name)
		late := claims.LateBinding(class)
		switch {
		case claim.Spec.VolumeName != "":
			r.unknown("claim %s names volume %s and is not bound: the PV controller binds it before the pod is placed", claim.Name, claim.Spec.VolumeName)
		case name == "":
			r.unknown("claim %s has no class: the PV controller chooses its volume before the pod is placed", claim.Name)
		case class != nil && !late:
			r.unknown("claim %s is of class %s, whose volumeBindingMode is Immediate: its volume is chosen before the pod is placed", claim.Name, name)
		}
	}
	return len(r.report.Unknown) > before
}

func (r *run) unknown(message string, args ...any) {
	r.report.Unknown = append(r.report.Unknown, fmt.Sprintf(message, args...))
}

// claimsOf returns the claims that a pod uses and that exist, in the order of its volumes.
func (r *run) claimsOf(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var all []*corev1.PersistentVolumeClaim
	for use := range claims.Used(pod) {
		claim := r.claims[snapshot.Name{Namespace: pod.Namespace, Name: use.Name}]
		if claim != nil && !slices.Contains(all, claim) {
			all = append(all, claim)
		}
	}
	return all
}

// add reports a replica.
func (r *run) add(pod *corev1.Pod, node string, running bool) {
	replica := v1alpha1.FitReplica{Name: pod.Name, Node: node, Running: running}
	reserved, known := r.simulator.Reserved(pod)
	for _, claim := range r.claimsOf(pod) {
		c := v1alpha1.FitClaim{Name: claim.Name, Class: match.ClaimClass(claim), Volume: claim.Spec.VolumeName, Bound: plan.IsBound(claim)}
		request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		c.Bytes = request.Value()
		if !c.Bound && node != "" && known {
			c.Volume = reserved[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
			c.Provisioned = c.Volume == "" && !running
		}
		if volume := r.volumes[snapshot.Name{Name: c.Volume}]; volume != nil {
			capacity := volume.Spec.Capacity[corev1.ResourceStorage]
			c.VolumeBytes = capacity.Value()
		}
		r.used[c.Class] = true
		replica.Claims = append(replica.Claims, c)
	}
	if node != "" {
		r.report.Placed++
	}
	r.report.Replicas = append(r.report.Replicas, replica)
}

// selecting are the plugins whose reasons do not depend on what nodes have left.
var selecting = []string{"NodeName", "NodeAffinity", "NodeUnschedulable", "TaintToleration"}

// after returns the snapshot with what was created, placed and reserved. It has no gaps.
func (r *run) after() *snapshot.Snapshot {
	var objects []snapshot.Object
	created := map[string]bool{}
	key := func(o snapshot.Object) string { return fmt.Sprintf("%T/%s/%s", o, o.GetNamespace(), o.GetName()) }
	add := func(o snapshot.Object) {
		if !created[key(o)] {
			created[key(o)] = true
			objects = append(objects, o)
		}
	}
	for _, claim := range r.claims {
		add(claim)
	}
	for _, o := range slices.Concat(r.placed, r.Beside) {
		add(o)
	}
	for _, k := range snapshot.Kinds() {
		for _, o := range r.snapshot.Objects(k) {
			add(o)
		}
	}
	return snapshot.Build(objects...)
}

// hold notes that a replica is placed, and its volumes reserved.
func (r *run) hold(pod *corev1.Pod, node string) {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	r.placed = append(r.placed, pod)
	reserved, _ := r.simulator.Reserved(pod)
	for name, volume := range reserved {
		claim, free := r.claims[snapshot.Name(name)], r.volumes[snapshot.Name{Name: volume}]
		if claim == nil || free == nil {
			continue
		}
		held := free.DeepCopy()
		held.Spec.ClaimRef = &corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
		}
		r.placed = append(r.placed, held)
	}
}
