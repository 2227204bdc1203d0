// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// measure finds why the first replica without a node has none, and the storage that is left on the eligible nodes.
func (r *run) measure(ctx context.Context) error {
	pod := r.unplaced
	if pod == nil {
		last := r.Workload.Replicas - 1
		var err error
		if pod, err = r.admit(r.Workload.replica(last, r.existing[last])); err != nil {
			return err
		}
	}
	verdict, err := r.simulator.Check(ctx, pod)
	if err != nil {
		return err
	}
	var eligible []*corev1.Node
	for _, n := range verdict.Nodes {
		if !slices.ContainsFunc(n.Reasons, func(reason simulate.Reason) bool { return slices.Contains(selecting, reason.Plugin) }) {
			eligible = append(eligible, n.Node)
		}
	}
	r.report.EligibleNodes = len(eligible)
	if r.unplaced != nil {
		if r.report.Missing, err = r.Explain(ctx, pod, r.after(), r.simulator); err != nil {
			return err
		}
	}
	for _, claim := range r.claimsOf(pod) {
		r.used[match.ClaimClass(claim)] = true
	}
	for _, class := range slices.Sorted(maps.Keys(r.used)) {
		free, known := r.simulator.Free(class, eligible)
		if !known {
			break
		}
		left := v1alpha1.FitLeft{Class: class, Volumes: free.Volumes, Bytes: free.Bytes, LargestBytes: free.Largest, Provisions: free.Provisions}
		if free.Limited {
			left.CapacityBytes, left.LargestCapacityBytes = stated(free.Capacity), stated(free.LargestCapacity)
		}
		r.report.Left = append(r.report.Left, left)
	}
	return nil
}

// stated returns nil for a capacity without a limit.
func stated(bytes int64) *int64 {
	if bytes == math.MaxInt64 {
		return nil
	}
	return &bytes
}

// conclude sets the verdict.
func (r *run) conclude() {
	for _, extender := range r.Extenders {
		r.unknown("the scheduler calls the extender at %s, which a simulation cannot", extender)
	}
	r.report.Unseen = snapshot.Unseen(r.snapshot, r.needed()...)
	if n := r.report.Unseen; len(n) > 0 {
		r.unknown("not all objects could be read: %s", strings.Join(n, ", "))
	}
	switch {
	case len(r.report.Unknown) > 0:
		r.report.Verdict = v1alpha1.FitUnknown
	case r.report.Placed == r.report.Requested, r.report.Most && r.report.Placed > 0:
		r.report.Verdict = v1alpha1.Fits
	default:
		r.report.Verdict = v1alpha1.DoesNotFit
	}
}

// needed returns the kinds that the answer depends on.
func (r *run) needed() []snapshot.Kind {
	kinds := []snapshot.Kind{snapshot.KindOf[*corev1.Pod](), snapshot.KindOf[*corev1.Node]()}
	if len(r.used) > 0 {
		kinds = append(kinds, snapshot.KindOf[*corev1.PersistentVolume](), snapshot.KindOf[*corev1.PersistentVolumeClaim](), snapshot.KindOf[*storagev1.StorageClass]())
	}
	if remote, attached := r.remote(); remote {
		kinds = append(kinds, snapshot.KindOf[*storagev1.CSINode](), snapshot.KindOf[*storagev1.CSIDriver](), snapshot.KindOf[*storagev1.CSIStorageCapacity]())
		if attached {
			kinds = append(kinds, snapshot.KindOf[*storagev1.VolumeAttachment]())
		}
	}
	spec := &r.Workload.Template.Spec
	if spec.PriorityClassName != "" {
		kinds = append(kinds, snapshot.KindOf[*schedulingv1.PriorityClass]())
	}
	if len(spec.ResourceClaims) > 0 {
		kinds = append(kinds, snapshot.KindOf[*resourcev1.ResourceClaim](), snapshot.KindOf[*resourcev1.ResourceSlice](), snapshot.KindOf[*resourcev1.DeviceClass]())
	}
	return kinds
}

// remote reports whether a claim can have a volume that is not local: it is of a class with a provisioner, or that
// could not be read. attached: such volumes can be attached to nodes.
func (r *run) remote() (remote, attached bool) {
	drivers := snapshot.By[*storagev1.CSIDriver](r.snapshot)
	for name := range r.used {
		class := r.class(name)
		if class != nil && class.Provisioner == "kubernetes.io/no-provisioner" {
			continue
		}
		remote = true
		if class == nil || drivers[snapshot.Name{Name: class.Provisioner}] == nil {
			return true, true
		}
		required := drivers[snapshot.Name{Name: class.Provisioner}].Spec.AttachRequired
		attached = attached || required == nil || *required
	}
	return remote, attached
}
