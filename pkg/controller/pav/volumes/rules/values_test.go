// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
)

// decided is the status that a decision records.
func decided(t *testing.T, f *rules.Facts) stowage.PavVolumeStatus {
	t.Helper()
	record, ok := rules.Decide(f).(rules.Record)
	if !ok {
		t.Fatalf("step %s, want Record", summary(rules.Decide(f)))
	}
	return record.Status
}

func TestHandleAndCapacity(t *testing.T) {
	t.Parallel()
	type made struct{ Handle, Capacity string }
	result := func(handle, capacity *string) func(*stowage.PavVolume) {
		return ended(stowage.PavStepCreation, stowage.PavStepResult{Succeeded: true, Handle: handle, Capacity: capacity})
	}
	field := func(f *rules.Facts) { f.Evaluated.Handle, f.Evaluated.Capacity = new("field"), new(int64(3<<30)) }
	for name, tc := range map[string]struct {
		facts *rules.Facts
		want  made
	}{
		"by the files":                {facts(volume(stowage.PavVolumeCreating, result(new("file"), new("2Gi")))), made{"file", "2Gi"}},
		"by the fields":               {facts(volume(stowage.PavVolumeCreating, result(new("file"), new("2Gi"))), field), made{"field", "3Gi"}},
		"the default handle":          {facts(volume(stowage.PavVolumeCreating, result(nil, new("2Gi")))), made{volumeName, "2Gi"}},
		"a newline is not part of it": {facts(volume(stowage.PavVolumeCreating, result(nil, new(" 2Gi\n")))), made{volumeName, "2Gi"}},
		"a fraction is rounded up":    {facts(volume(stowage.PavVolumeCreating, result(nil, new("1.5e9")))), made{volumeName, "1500000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := decided(t, tc.facts)
			if diff := cmp.Diff(tc.want, made{status.Handle, status.Capacity.String()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The delay doubles with each failure up to the limit, and a revert does not reset it.
func TestBackoff(t *testing.T) {
	t.Parallel()
	for failures, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
		before := func(v *stowage.PavVolume) {
			v.Status.Failures, v.Status.DeletionFailures = int32(failures), int32(failures)
		}
		failed := decided(t, facts(volume(stowage.PavVolumeValidating, ended(stowage.PavStepValidation, stowage.PavStepResult{}), before)))
		deletion := decided(t, facts(volume(stowage.PavVolumeDeleting, ended(stowage.PavStepDeletion, stowage.PavStepResult{}), before), noClaim))
		for name, status := range map[string]stowage.PavVolumeStatus{"an attempt": failed, "a deletion": deletion} {
			if got := status.RetryTime.Sub(now); got != want {
				t.Errorf("%s is repeated %s after failure %d, want %s", name, got, failures+1, want)
			}
		}
	}
	reverted := decided(t, facts(volume(stowage.PavVolumeReverting, failures(3, 0), ended(stowage.PavStepDeletion, succeeded))))
	if got := reverted.RetryTime.Sub(now); got != 20*time.Second || reverted.Failures != 3 {
		t.Errorf("after the revert, attempt %d is repeated after %s, want 3 and 20s", reverted.Failures, got)
	}
	if condition := meta.FindStatusCondition(reverted.Conditions, stowage.ConditionProvisioned); condition == nil || condition.Message != "no space" {
		t.Errorf("condition %+v, want the failure of the attempt", condition)
	}
}

func TestRevisionOf(t *testing.T) {
	t.Parallel()
	latest := func(v *stowage.PavVolume) { v.Spec.UseRevision = stowage.UseRevisionLatest }
	of := func(phase stowage.PavVolumePhase, changes ...func(*stowage.PavVolume)) *stowage.PavVolume {
		return facts(volume(phase, changes...)).Volume
	}
	for name, tc := range map[string]struct {
		volume *stowage.PavVolume
		want   string
	}{
		"no volume":                      {nil, "p-2"},
		"the next attempt":               {of(stowage.PavVolumePending), "p-2"},
		"an attempt":                     {of(stowage.PavVolumeCreating), "p-1"},
		"a deletion":                     {of(stowage.PavVolumeDeleting), "p-1"},
		"a deletion by the latest":       {of(stowage.PavVolumeDeleting, latest), "p-2"},
		"a revert by the latest":         {of(stowage.PavVolumeReverting, latest), "p-2"},
		"a creation never is":            {of(stowage.PavVolumeCreating, latest), "p-1"},
		"a pod that was announced stays": {of(stowage.PavVolumeDeleting, latest, announced(stowage.PavStepDeletion)), "p-1"},
	} {
		if got := rules.RevisionOf(tc.volume, "p-2"); got != tc.want {
			t.Errorf("%s: revision %s, want %s", name, got, tc.want)
		}
	}
}

// Of two volumes with a handle, one at most is held up by the other unless it is in use.
func TestHolds(t *testing.T) {
	t.Parallel()
	at := func(name string, phase stowage.PavVolumePhase, age time.Duration) *stowage.PavVolume {
		return &stowage.PavVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "one", CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Status:     stowage.PavVolumeStatus{Phase: phase},
		}
	}
	const creating, publishing, reverting = stowage.PavVolumeCreating, stowage.PavVolumePublishing, stowage.PavVolumeReverting
	type holds struct{ OldByYoung, YoungByOld bool }
	for name, tc := range map[string]struct {
		old, young stowage.PavVolumePhase
		want       holds
	}{
		"both are being created":      {creating, creating, holds{YoungByOld: true}},
		"the younger one was created": {creating, publishing, holds{OldByYoung: true, YoungByOld: true}},
		"both were created":           {publishing, publishing, holds{YoungByOld: true}},
		"both are being reverted":     {reverting, reverting, holds{YoungByOld: true}},
		"the younger one is in use":   {reverting, stowage.PavVolumeProvisioned, holds{OldByYoung: true}},
		"the younger one is deleted":  {reverting, stowage.PavVolumeDeleting, holds{OldByYoung: true}},
		"one is in use, one deleted":  {stowage.PavVolumeDeleting, stowage.PavVolumeProvisioned, holds{OldByYoung: true, YoungByOld: true}},
		"both are deleted":            {stowage.PavVolumeDeleting, stowage.PavVolumeDeleting, holds{YoungByOld: true}},
		"the older one is gone":       {stowage.PavVolumeDeleted, reverting, holds{}},
	} {
		old, young := at("b", tc.old, time.Hour), at("a", tc.young, 0)
		young.UID = "other"
		if diff := cmp.Diff(tc.want, holds{rules.Holds(young, old), rules.Holds(old, young)}); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
	same := at("b", creating, 0)
	same.UID = "other"
	if other := at("a", creating, 0); rules.Holds(same, other) || !rules.Holds(other, same) {
		t.Error("of two volumes of the same age, the first by name does not hold the handle")
	}
	foreign := at("a", stowage.PavVolumeProvisioned, 0)
	foreign.Spec.Provisioner = "q"
	if rules.Holds(foreign, same) {
		t.Error("a volume of another provisioner holds the handle")
	}
}

func TestPodRefused(t *testing.T) {
	t.Parallel()
	for phase, want := range map[stowage.PavVolumePhase]string{
		stowage.PavVolumeValidating: "Record Pending ValidationFailed",
		stowage.PavVolumeCreating:   "Record Pending CreationFailed",
		stowage.PavVolumeReverting:  "Record Reverting DeletionFailed",
		stowage.PavVolumeDeleting:   "Record Deleting DeletionFailed notDeletable",
	} {
		f := facts(volume(phase, announced(stowage.PavStepDeletion)))
		record := rules.PodRefused(f, "exceeded quota")
		if got := summary(record); got != want || !strings.Contains(record.Event.Message, "exceeded quota") {
			t.Errorf("%s: %s: %s, want %s", phase, got, record.Event.Message, want)
		}
	}
}

func TestPersistentVolume(t *testing.T) {
	t.Parallel()
	f := facts(volume(stowage.PavVolumePublishing), localOnly, func(f *rules.Facts) {
		f.Made.Class.ReclaimPolicy, f.Made.Class.MountOptions = new(corev1.PersistentVolumeReclaimDelete), []string{"noatime"}
	})
	want := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: volumeName, Finalizers: []string{rules.PVFinalizer}, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "p", wellknown.PavNodeAnnotation: "n1"},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "ns", Name: "c", UID: "claim-uid"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: "class", MountOptions: []string{"noatime"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "p", VolumeHandle: "h", VolumeAttributes: map[string]string{"size": "big"},
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"host1"}}},
			}}}},
		},
	}
	if diff := cmp.Diff(want, rules.PersistentVolume(f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.Made.Class.ReclaimPolicy, f.Made.Access = new(corev1.PersistentVolumeReclaimRetain), rules.Access{}
	if pv := rules.PersistentVolume(f); pv.Finalizers != nil || pv.Spec.NodeAffinity != nil {
		t.Errorf("finalizers %v, node affinity %v of a retained volume that all nodes can reach", pv.Finalizers, pv.Spec.NodeAffinity)
	}
}
