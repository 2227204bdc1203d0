// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/provisioners"
)

// provisionerPod creates the pod of a node's provisioner, as the DaemonSet would, which the
// simulated kubelet makes Ready. It is deleted after the test.
func (s *site) provisionerPod(node string) *corev1.Pod {
	s.T.Helper()
	pod := s.Pod("provisioner").Obj()
	pod.Namespace, pod.Name, pod.Spec.NodeName = provisioners.Namespace, s.Name("provisioner-"+node), s.Name(node)
	pod.Labels = map[string]string{"app.kubernetes.io/name": "stowage-provisioner"}
	pod.Spec.AutomountServiceAccountToken = new(bool)
	made, err := s.Client.CoreV1().Pods(pod.Namespace).Create(s.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), s.Timeout)
		defer cancel()
		err := s.Client.CoreV1().Pods(made.Namespace).Delete(ctx, made.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if err != nil && !apierrors.IsNotFound(err) {
			s.T.Error(err)
		}
	})
	return made
}

// probe sets the result of kubelet's probe of a provisioner.
func (s *site) probe(pod *corev1.Pod, works corev1.ConditionStatus) {
	s.T.Helper()
	patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`, works, time.Now().UTC().Format(time.RFC3339))
	_, err := s.Client.CoreV1().Pods(pod.Namespace).Patch(s.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		s.T.Fatal(err)
	}
}

// TestSilentProvisioner: its last report is ignored while it does not
// work, and counts again when it does.
func TestSilentProvisioner(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "1h"), "a") // the delay is never over
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	mark := func() (m *rules.Mark) {
		if v := s.seen(before.pv); v != nil {
			m = rules.ReadMark(v.Annotations[wellknown.LostAnnotation])
		}
		return m
	}
	s.report(before.pv, stowage.EntryMissing)
	pod := s.provisionerPod("a")
	s.Wait("the loss to be written down", func() bool { return mark() != nil })
	first := mark()
	s.probe(pod, corev1.ConditionFalse)
	s.Wait("the loss to be forgotten", func() bool { return mark() == nil })
	s.probe(pod, corev1.ConditionTrue)
	s.Wait("the loss to be recorded again", func() bool { return mark() != nil })
	if second := mark(); !second.Since.After(first.Since) {
		t.Errorf("the delay begins at %s, want later than %s", second.Since, first.Since)
	}
	if c := s.SeenPVC("data-db-0"); c == nil || c.UID != before.claim.UID || c.DeletionTimestamp != nil {
		t.Errorf("the claim was released: %v", c)
	}
}

// TestOutdatedReport: a report has the disk as missing, because its provisioner could not
// write it since, and the volume does not. Its claim is not released, for longer than the delay,
// until the volume is marked too.
func TestOutdatedReport(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "1s"), "a")
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	s.AddNodes(s.Node("b"))
	other := s.volume("b", "disk1", corev1.PersistentVolumeReclaimDelete) // whose end shows that a delay is over
	s.provisionerPod("a")
	s.reportOnly(before.pv, stowage.EntryMissing)
	s.lose("b")
	s.waitGone(other, stowage.TombstonePublished)
	if v := s.seen(before.pv); v == nil || v.Annotations[wellknown.LostAnnotation] != "" {
		t.Errorf("the volume counts as lost: %v", v)
	}
	if c := s.SeenPVC("data-db-0"); c == nil || c.UID != before.claim.UID || c.DeletionTimestamp != nil {
		t.Errorf("the claim was released: %v", c)
	}
	s.mark(before.pv, disk.MarkMissing)
	s.Wait("the claim to be released", func() bool {
		c := s.SeenPVC("data-db-0")
		return c == nil || c.UID != before.claim.UID
	})
}

// TestMissingProvisioner: its report has the disk as missing, and nothing is
// released, for longer than the delay.
func TestMissingProvisioner(t *testing.T) {
	t.Parallel()
	s := newSite(t, fixture.New(t), asks("Release", "2s"), "a")
	s.set("db", 1, nil)
	before := s.waitPlaced("db-0", "data-db-0", nil)
	s.report(before.pv, stowage.EntryMissing)
	s.AddNodes(s.Node("b"))
	other := s.volume("b", "disk1", corev1.PersistentVolumeReclaimDelete) // whose end shows that a delay is over
	s.lose("b")
	s.waitGone(other, stowage.TombstonePublished)
	if v := s.seen(before.pv); v == nil || v.DeletionTimestamp != nil || v.Annotations[wellknown.LostAnnotation] != "" {
		t.Errorf("the volume was touched: %v", v)
	}
	if c := s.SeenPVC("data-db-0"); c == nil || c.UID != before.claim.UID || c.DeletionTimestamp != nil {
		t.Errorf("the claim was released: %v", c)
	}
}
