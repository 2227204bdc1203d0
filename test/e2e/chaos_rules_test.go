// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/testing/builders"
)

// TestChaosRules: the checks of TestChaos find each violation, and accept valid
// sequences.
func TestChaosRules(t *testing.T) {
	volume := func(uid types.UID, phase corev1.PersistentVolumePhase, owner types.UID) *corev1.PersistentVolume {
		source := corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}}
		pv := builders.MakePV("pv").Source(source).Hostname("one").Obj()
		pv.UID, pv.Status.Phase = uid, phase
		if owner != "" {
			pv.Spec.ClaimRef = &corev1.ObjectReference{UID: owner}
		}
		return pv
	}
	claim := func(uid types.UID, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		c := builders.MakePVC("claim").Obj()
		c.UID, c.Spec.VolumeName, c.Status.Phase = uid, "pv", phase
		return c
	}
	const available, bound, released = corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased
	for scenario, tc := range map[string]struct {
		see  func(*load)
		want string // empty: all is in order
	}{
		"a volume is bound, released, deleted and published again": {see: func(l *load) {
			l.sawVolume(volume("1", available, ""))
			l.sawVolume(volume("1", bound, "a"))
			l.sawVolume(volume("1", released, "a"))
			l.lostVolume(volume("1", released, "a"))
			l.sawVolume(volume("2", available, ""))
			l.sawVolume(volume("2", available, "b"))
			l.sawVolume(volume("2", bound, "b"))
		}},
		"a reserved volume is reserved for another claim before it is bound": {see: func(l *load) {
			l.sawVolume(volume("1", available, "a"))
			l.sawVolume(volume("1", bound, "b"))
		}},
		"a volume is available again as it is": {see: func(l *load) {
			l.sawVolume(volume("1", bound, "a"))
			l.sawVolume(volume("1", available, "a"))
		}, want: "is available after claim a had it"},
		"a bound volume is bound to another claim": {see: func(l *load) {
			l.sawVolume(volume("1", bound, "a"))
			l.sawVolume(volume("1", bound, "b"))
		}, want: `was given to claim "b" after claim a had had it`},
		"a disk has two volumes": {see: func(l *load) {
			l.sawVolume(volume("1", released, "a"))
			l.sawVolume(volume("2", available, ""))
		}, want: "is published while there is"},
		"two claims have one volume": {see: func(l *load) {
			l.sawClaim(claim("a", corev1.ClaimBound))
			l.sawClaim(claim("b", corev1.ClaimPending))
		}, want: "given to claim b while claim a had it"},
		"two claims have one volume, one after the other": {see: func(l *load) {
			l.sawClaim(claim("a", corev1.ClaimBound))
			l.lostClaim(claim("a", corev1.ClaimBound))
			l.sawClaim(claim("b", corev1.ClaimBound))
		}},
		"a claim is lost": {see: func(l *load) { l.sawClaim(claim("a", corev1.ClaimLost)) }, want: "is lost"},
		"a pod has found something, and is tried again": {see: func(l *load) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
			end := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: dirty, Message: "word"}}
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{LastTerminationState: end}}
			l.sawPod(pod)
		}, want: "found its volume dirty: word"},
	} {
		t.Run(scenario, func(t *testing.T) {
			l := emptyLoad(nil)
			tc.see(l)
			if got := strings.Join(l.broken, "; "); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("broken: %q, want %q", got, tc.want)
			}
		})
	}
}
