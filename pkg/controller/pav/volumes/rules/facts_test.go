// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

const volumeName = "pvc-claim-uid"

type change = func(*rules.Facts)

// facts are those of a claim of a late-binding class, without a volume, as read from the API
// server. The provisioner has a pod for each step.
func facts(changes ...change) *rules.Facts {
	late := storagev1.VolumeBindingWaitForFirstConsumer
	f := &rules.Facts{
		Now: now, Live: true,
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "claim-uid", Annotations: map[string]string{rules.AnnSelectedNode: "n1"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		},
		Class:       &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}, Provisioner: "p", VolumeBindingMode: &late, Parameters: map[string]string{"size": "big"}},
		Provisioner: &rules.Provisioner{Name: "p", UID: "p-uid", Dynamic: true, Revision: "p-1"},
		Node:        &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "host1"}}},
		Evaluated: rules.Evaluated{
			HasPod: true, Namespace: "stowage-pav",
			VolumeModes: []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		},
		Limits: podstep.Limits{Timeout: 10 * time.Minute, BackoffFirst: 5 * time.Second, BackoffLast: time.Minute},
	}
	for _, c := range changes {
		c(f)
	}
	return f
}

// volume gives the claim a PavVolume in a phase.
func volume(phase stowage.PavVolumePhase, changes ...func(*stowage.PavVolume)) change {
	return func(f *rules.Facts) {
		f.Volume = &stowage.PavVolume{
			ObjectMeta: metav1.ObjectMeta{Name: volumeName, UID: "volume-uid", Generation: 1},
			Spec: stowage.PavVolumeSpec{
				Provisioner: "p", ProvisionerUID: "p-uid", Revision: "p-1", NodeName: "n1",
				ClaimRef: stowage.ClaimReference{Namespace: "ns", Name: "c", UID: "claim-uid"},
			},
			Status: stowage.PavVolumeStatus{Phase: phase},
		}
		f.Made = &rules.Made{Claim: f.Claim, Class: f.Class}
		switch phase {
		case stowage.PavVolumePublishing, stowage.PavVolumeProvisioned, stowage.PavVolumeDeleting, stowage.PavVolumeDeleted:
			f.Volume.Status.Handle, f.Volume.Status.Capacity = "h", new(resource.MustParse("1Gi"))
			f.Volume.Status.ReclaimPolicy, f.Volume.Status.VolumeUID = corev1.PersistentVolumeReclaimDelete, "pv-uid"
		}
		for _, c := range changes {
			c(f.Volume)
		}
	}
}

// step announces a helper pod, which is created if uid is not empty.
func step(name stowage.PavStepName, uid string) func(*stowage.PavVolume) {
	return func(v *stowage.PavVolume) {
		v.Status.Attempt = 3
		v.Status.Step = &stowage.PavVolumeStep{
			Name: name, Attempt: 3, Revision: "p-1", PodNamespace: "stowage-pav", PodName: "pod", StartTime: metav1.NewTime(now.Add(-time.Minute)),
		}
		if uid != "" {
			v.Status.Step.PodUID = "pod-uid"
		}
	}
}

func created(name stowage.PavStepName) func(*stowage.PavVolume)   { return step(name, "pod-uid") }
func announced(name stowage.PavStepName) func(*stowage.PavVolume) { return step(name, "") }

// ended is a helper pod whose result is recorded.
func ended(name stowage.PavStepName, result stowage.PavStepResult) func(*stowage.PavVolume) {
	return func(v *stowage.PavVolume) {
		created(name)(v)
		v.Status.Step.Result = &result
	}
}

func failures(count int32, retry time.Duration) func(*stowage.PavVolume) {
	return func(v *stowage.PavVolume) {
		v.Status.Failures = count
		v.Status.RetryTime = new(metav1.NewTime(now.Add(retry)))
		v.Status.LastError = &stowage.PavVolumeError{Reason: string(rules.CreationFailed), Message: "no space"}
	}
}

func deletingVolume(v *stowage.PavVolume) { v.DeletionTimestamp = new(metav1.NewTime(now)) }

var succeeded = stowage.PavStepResult{Succeeded: true}

// pod is the helper pod.
func pod(changes ...func(*podstep.Pod)) change {
	return func(f *rules.Facts) {
		f.Pod = &podstep.Pod{UID: "pod-uid", Adoptable: true, Finalized: true}
		for _, c := range changes {
			c(f.Pod)
		}
	}
}

func returned(result stowage.PavStepResult) func(*podstep.Pod) {
	return func(p *podstep.Pod) { p.Result, p.Over = &result, true }
}
func deletedAgo(d time.Duration) func(*podstep.Pod) {
	return func(p *podstep.Pod) { p.DeletedAt = now.Add(-d) }
}

// pv is the PersistentVolume.
func pv(phase corev1.PersistentVolumePhase, changes ...func(*corev1.PersistentVolume)) change {
	return func(f *rules.Facts) {
		f.PV = &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: volumeName, UID: "pv-uid", Finalizers: []string{rules.PVFinalizer}},
			Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				ClaimRef:                      &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "claim-uid"},
				PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "p", VolumeHandle: "h"}},
			},
			Status: corev1.PersistentVolumeStatus{Phase: phase},
		}
		for _, c := range changes {
			c(f.PV)
		}
	}
}

func deletingPV(v *corev1.PersistentVolume)  { v.DeletionTimestamp = new(metav1.NewTime(now)) }
func unfinalized(v *corev1.PersistentVolume) { v.Finalizers = nil }
func retain(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
}

func noClaim(f *rules.Facts)   { f.Claim = nil }
func noPod(f *rules.Facts)     { f.Evaluated.HasPod = false }
func noNode(f *rules.Facts)    { f.Node = nil }
func cached(f *rules.Facts)    { f.Live = false }
func localOnly(f *rules.Facts) { f.Made.Access = rules.Access{SelectedNode: true} }
func deletingClaim(f *rules.Facts) {
	f.Claim = f.Claim.DeepCopy()
	f.Claim.DeletionTimestamp = new(metav1.NewTime(now))
}
func claim(change func(*corev1.PersistentVolumeClaim)) change {
	return func(f *rules.Facts) { change(f.Claim) }
}

// summary describes a step in a line: its kind, and what it writes.
func summary(step rules.Step) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", step), "rules.")
	switch s := step.(type) {
	case rules.Refuse:
		return fmt.Sprintf("%s %s", kind, s.Reason)
	case rules.Wait:
		words := []string{kind, string(s.Reason)}
		if s.For > 0 {
			words = append(words, s.For.String())
		}
		return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	case rules.Begin:
		return fmt.Sprintf("%s %s by %s on %s", kind, s.Status.Phase, s.Revision, s.Node)
	case rules.Record:
		return record(kind, s)
	case rules.DeletePod:
		return fmt.Sprintf("%s %s", kind, s.UID)
	case rules.ReleasePod:
		return fmt.Sprintf("%s %s", kind, s.UID)
	case rules.DeletePV:
		return fmt.Sprintf("%s %s", kind, s.UID)
	default:
		return kind
	}
}

func record(kind string, r rules.Record) string {
	words := []string{kind, string(r.Status.Phase)}
	if s := r.Status.Step; s != nil {
		words = append(words, fmt.Sprintf("%s/%d", s.Name, s.Attempt))
		switch {
		case s.Result != nil && s.Result.Succeeded:
			words = append(words, "succeeded")
		case s.Result != nil:
			words = append(words, "failed")
		case s.PodUID != "":
			words = append(words, "running")
		}
	}
	if r.Event.Reason != "" {
		words = append(words, string(r.Event.Reason))
	}
	for _, kind := range []string{stowage.ConditionDeletable, stowage.ConditionNodeExists} {
		if meta.IsStatusConditionFalse(r.Status.Conditions, kind) {
			words = append(words, "not"+kind)
		}
	}
	return strings.Join(words, " ")
}
