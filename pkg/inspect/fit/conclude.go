// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
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

// conclude sets the verdict and its sentence.
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
	r.report.Sentence = r.sentence()
}

// sentence is the answer in words.
func (r *run) sentence() string {
	f := r.report
	switch {
	case f.Verdict == v1alpha1.FitUnknown && len(f.Replicas) == 0:
		return fmt.Sprintf("It is not known whether %s can be placed. The reasons:", r.count(f.Requested))
	case f.Verdict == v1alpha1.FitUnknown && f.Most:
		return fmt.Sprintf("It is not known how many can be placed. On what could be read and simulated, %s would be placed. The reasons:", r.count(f.Placed))
	case f.Verdict == v1alpha1.FitUnknown:
		return fmt.Sprintf("It is not known whether %s can be placed. On what could be read and simulated, %d would be placed. The reasons:", r.count(f.Requested), f.Placed)
	case f.Placed == 0 && f.Requested == 1:
		return fmt.Sprintf("%s does not fit.", r.count(1))
	case f.Placed == 0 && f.Most:
		return fmt.Sprintf("Not even %s fits.", r.count(1))
	case f.Placed == 0:
		return fmt.Sprintf("Not one of %s fits.", r.count(f.Requested))
	case f.Most && f.Placed == f.Requested:
		return fmt.Sprintf("%s fit; no more are simulated.%s", r.count(f.Placed), r.already())
	case f.Most:
		return fmt.Sprintf("%s would be placed, and no more.%s", r.count(f.Placed), r.already())
	case f.Verdict == v1alpha1.DoesNotFit:
		return fmt.Sprintf("Only %d of %s would be placed.%s", f.Placed, r.count(f.Requested), r.already())
	case f.Placed == 1:
		return fmt.Sprintf("%s fits.%s", r.count(1), r.already())
	}
	return fmt.Sprintf("All %s fit.%s", r.count(f.Placed), r.already())
}

// count is a number of replicas and what they are of.
func (r *run) count(n int) string {
	if r.Workload.Kind == "" {
		return format.Count(n, "pod") + " with these claims"
	}
	return fmt.Sprintf("%s of %s", format.Count(n, "replica"), r.Workload)
}

// already is the number of replicas that have a node.
func (r *run) already() string {
	switch r.report.Running {
	case 0:
		return ""
	case 1:
		return " 1 of them runs already."
	}
	return fmt.Sprintf(" %d of them run already.", r.report.Running)
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
