// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

func TestAdmitPod(t *testing.T) {
	t.Parallel()
	classes := []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
		{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 7, GlobalDefault: true},
	}
	type admitted struct {
		Priority    int32
		CPU         string
		Tolerations []string
	}
	added := []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
	for name, test := range map[string]struct {
		classes []*schedulingv1.PriorityClass
		change  func(*corev1.Pod)
		want    admitted
	}{
		"the default priority":     {classes: classes, want: admitted{7, "0", added}},
		"without priority classes": {want: admitted{0, "0", added}},
		"a priority class":         {classes: classes, change: func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }, want: admitted{1000, "0", added}},
		"a priority of the system": {change: func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }, want: admitted{2_000_001_000, "0", added}},
		"requests are those of limits": {want: admitted{0, "2", added}, change: func(p *corev1.Pod) {
			limits := builders.MakePod("other").Requests("2", "").Obj().Spec.Containers[0].Resources.Requests
			p.Spec.Containers[0].Resources.Limits = limits
		}},
		"tolerations that the pod has": {want: admitted{0, "0", []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}}, change: func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		}},
	} {
		pod := builders.MakePod("p").UID("p").Obj()
		if test.change != nil {
			test.change(pod)
		}
		before := pod.DeepCopy()
		got, err := simulate.AdmitPod(pod, test.classes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		result := admitted{Priority: *got.Spec.Priority, CPU: got.Spec.Containers[0].Resources.Requests.Cpu().String()}
		for _, toleration := range got.Spec.Tolerations {
			result.Tolerations = append(result.Tolerations, toleration.Key)
		}
		if diff := cmp.Diff(test.want, result); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Errorf("%s: the argument was changed (-before +after):\n%s", name, diff)
		}
	}
}

func TestAdmitClaimSetsTheDefaultClass(t *testing.T) {
	t.Parallel()
	created := func(name string, hours int) *storagev1.StorageClass {
		return builders.MakeClass(name).Annotation("storageclass.kubernetes.io/is-default-class", "true").Change(func(c *storagev1.StorageClass) {
			c.CreationTimestamp = metav1.NewTime(time.Unix(1_000_000, 0).Add(time.Duration(hours) * time.Hour))
		}).Obj()
	}
	for name, test := range map[string]struct {
		classes []*storagev1.StorageClass
		want    string
	}{
		"none":                                {nil, ""},
		"none is marked":                      {[]*storagev1.StorageClass{builders.MakeClass("a").Obj()}, ""},
		"the newest":                          {[]*storagev1.StorageClass{created("a", 1), created("b", 3), created("c", 2)}, "b"},
		"of two of an age, the first by name": {[]*storagev1.StorageClass{created("c", 1), created("b", 1)}, "b"},
	} {
		claim := builders.MakePVC("c").Obj()
		claim.Spec.StorageClassName = nil
		admitted, err := simulate.AdmitClaim(claim, test.classes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := match.ClaimClass(admitted)
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
