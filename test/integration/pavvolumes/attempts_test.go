// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/test/integration/fixture"
)

// withValidation is withPods and a validation pod.
var withValidation = strings.Replace(withPods, "  volumeCreation:", `  volumeValidation:
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["{{ pvc.metadata.name }}"]}]}}
  volumeCreation:`, 1)

// attempt is a claim whose first pod of a step has an outcome that is not a success.
type attempt struct {
	step helperpod.Step
	pod  outcome
	// meanwhile is what another client does to the pod once it runs.
	meanwhile func(context.Context, *fixture.Env, *corev1.Pod) error
	reason    rules.Reason
	message   string // part of the event
}

// claimName is the name of the claim of a row.
func claimName(row string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' {
			return '-'
		}
		return r
	}, row)
}

// claims creates a claim for each row, after change changed it.
func claims[T any](e *fixture.Env, rows map[string]T, change func(*corev1.PersistentVolumeClaim, T)) map[string]*corev1.PersistentVolumeClaim {
	e.T.Helper()
	all := map[string]*corev1.PersistentVolumeClaim{}
	for name, row := range rows {
		all[name] = e.CreatePVC(e.PVC(claimName(name)).Class(e.Name("made")).Change(func(c *corev1.PersistentVolumeClaim) { change(c, row) }))
	}
	return all
}

// completed waits until each claim is bound to the volume of a later attempt, deletes the claims, and
// waits until nothing of their volumes is left.
func completed(e *fixture.Env, all map[string]*corev1.PersistentVolumeClaim) {
	e.T.Helper()
	for row, claim := range all {
		boundTo(e, claim)
		if handle := persistentVolume(e, rules.VolumeName(claim.UID)).Spec.CSI.VolumeHandle; handle != "later-"+claim.Name {
			e.T.Errorf("%s: handle %s, want that of a later attempt", row, handle)
		}
		e.DeletePVC(claim.Name)
	}
	for _, claim := range all {
		nothingLeft(e, claim)
	}
}

// attempted creates the claims of rows, and checks that each is reported as its row says, and is
// bound to the volume of a later attempt.
func attempted(e *fixture.Env, text string, rows map[string]attempt) {
	e.T.Helper()
	byClaim := map[string]attempt{}
	for name, row := range rows {
		byClaim[claimName(name)] = row
	}
	provide(e, text, corev1.PersistentVolumeReclaimDelete, func(claim string, step helperpod.Step, number int) outcome {
		if row := byClaim[claim]; row.step == step && number == 1 {
			return row.pod
		}
		return exit(report.Report{Handle: new("later-" + claim), Capacity: new("1Gi")}, 0)
	})
	all := claims(e, rows, func(*corev1.PersistentVolumeClaim, attempt) {})
	for name, row := range rows {
		if row.meanwhile == nil {
			continue
		}
		pod := running(e, all[name])
		e.Do(func(ctx context.Context) error { return row.meanwhile(ctx, e, pod) })
	}
	for name, row := range rows {
		e.WaitEvent(e.Namespace, claimName(name), string(row.reason), row.message)
	}
	completed(e, all)
}

// running waits until a helper pod of a claim's volume runs in the provisioner namespace.
func running(e *fixture.Env, claim *corev1.PersistentVolumeClaim) *corev1.Pod {
	e.T.Helper()
	return runningIn(e, namespace, claim)
}

func runningIn(e *fixture.Env, namespace string, claim *corev1.PersistentVolumeClaim) *corev1.Pod {
	e.T.Helper()
	return seen(e, e.Client.CoreV1().Pods(namespace), "", func(p *corev1.Pod) bool {
		owner := metav1.GetControllerOf(p)
		return owner != nil && owner.Name == rules.VolumeName(claim.UID) && p.Status.Phase == corev1.PodRunning
	})
}

func deletePod(options metav1.DeleteOptions) func(context.Context, *fixture.Env, *corev1.Pod) error {
	return func(ctx context.Context, e *fixture.Env, pod *corev1.Pod) error {
		return e.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	}
}

// evict requests what kubectl drain does.
func evict(ctx context.Context, e *fixture.Env, pod *corev1.Pod) error {
	return e.Client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
}

// remove deletes a pod by force, after its finalizers.
func remove(ctx context.Context, e *fixture.Env, pod *corev1.Pod) error {
	pods := e.Client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}

// lost is what the garbage collector of pods writes into the pods of a node that does not exist.
func lost(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodFailed
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists", LastTransitionTime: metav1.Now(),
	})
}

// rebooted is what kubelet reports about a pod that ran before a reboot.
func rebooted(pod *corev1.Pod) {
	leave("", 137)(pod)
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].State.Terminated.Reason = "ContainerStatusUnknown"
	}
}

// An attempt that fails is reported on the claim, whatever the reason. The next one succeeds, and no
// result of the first one counts.
func TestAttempts(t *testing.T) {
	t.Parallel()
	const validation, creation = helperpod.Validation, helperpod.Creation
	whole, err := report.Encode(report.Report{Handle: new("cut"), Capacity: new("1Gi")}, report.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	made := func(change func(*report.Report)) outcome {
		r := report.Report{Handle: new("first"), Capacity: new("1Gi")}
		change(&r)
		return exit(r, 0)
	}
	attempted(fixture.New(t), withValidation, map[string]attempt{
		"validation fails":         {step: validation, pod: exit(report.Report{Error: "no such pool"}, 1), reason: rules.Invalid, message: "no such pool"},
		"validation has no report": {step: validation, pod: leave("", 0), reason: rules.Invalid, message: "left no report"},
		"creation fails":           {step: creation, pod: exit(report.Report{Error: "no space", Handle: new("first")}, 1), reason: rules.CreationFailed, message: "no space"},
		"evicted":                  {step: creation, pod: runs, meanwhile: evict, reason: rules.CreationFailed, message: "EvictionByEvictionAPI"},
		"deleted":                  {step: creation, pod: runs, meanwhile: deletePod(metav1.DeleteOptions{}), reason: rules.CreationFailed, message: "was deleted before its containers ended"},
		"deleted by force":         {step: creation, pod: runs, meanwhile: deletePod(metav1.DeleteOptions{GracePeriodSeconds: new(int64)}), reason: rules.CreationFailed, message: "was deleted before its containers ended"},
		"removed":                  {step: creation, pod: runs, meanwhile: remove, reason: rules.CreationFailed, message: "was deleted, so its result is not known"},
		"node lost":                {step: creation, pod: lost, reason: rules.CreationFailed, message: "DeletionByPodGC"},
		"node rebooted":            {step: creation, pod: rebooted, reason: rules.CreationFailed, message: "exit code 137 (ContainerStatusUnknown)"},
		"no report":                {step: creation, pod: leave("", 0), reason: rules.CreationFailed, message: "the reporter left no report"},
		"report cut":               {step: creation, pod: leave(whole[:len(whole)-1], 0), reason: rules.CreationFailed, message: "the report is cut"},
		"report damaged":           {step: creation, pod: leave(strings.Replace(whole, `"cut"`, `"CUT"`, 1), 0), reason: rules.CreationFailed, message: "the report is damaged"},
		"report with problems":     {step: creation, pod: made(func(r *report.Report) { r.Problems = []string{"/pav/capacity: is a directory"} }), reason: rules.CreationFailed, message: "/pav/capacity: is a directory"},
		"no capacity":              {step: creation, pod: made(func(r *report.Report) { r.Capacity = nil }), reason: rules.CreationFailed, message: "the capacity of the volume is not known"},
		"capacity bad":             {step: creation, pod: made(func(r *report.Report) { r.Capacity = new("much") }), reason: rules.CreationFailed, message: "/pav/capacity"},
		"capacity too small":       {step: creation, pod: made(func(r *report.Report) { r.Capacity = new("1073741823") }), reason: rules.CreationFailed, message: "/pav/capacity is 1073741823 bytes, but the claim requests 1Gi"},
		"handle empty":             {step: creation, pod: made(func(r *report.Report) { r.Handle = new("") }), reason: rules.CreationFailed, message: "/pav/handle is empty"},
		"handle with a caret":      {step: creation, pod: made(func(r *report.Report) { r.Handle = new("a^b") }), reason: rules.CreationFailed, message: "must not have a ^"},
		"handle too long":          {step: creation, pod: made(func(r *report.Report) { r.Handle = new(strings.Repeat("h", 129)) }), reason: rules.CreationFailed, message: "/pav/handle has 129 bytes, must have at most 128"},
	})
}

// A pod that does not end within its timeout is ended, and has failed. What keeps it from running is
// reported before.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	const validation, creation = helperpod.Validation, helperpod.Creation
	unscheduled := func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/0 nodes are available",
		})
	}
	const timeout = "did not end within 3s"
	text := strings.Replace(withValidation, "  backoff:", "  timeouts: {validation: 3s, creation: 3s}\n  backoff:", 1)
	attempted(fixture.New(t), text, map[string]attempt{
		"validation":               {step: validation, pod: runs, reason: rules.Invalid, message: timeout},
		"creation":                 {step: creation, pod: runs, reason: rules.CreationFailed, message: timeout},
		"image of validation":      {step: validation, pod: waits("ImagePullBackOff", "no such image"), reason: rules.Invalid, message: timeout + ": container main does not run: ImagePullBackOff"},
		"image of creation":        {step: creation, pod: waits("ImagePullBackOff", "no such image"), reason: rules.CreationFailed, message: timeout + ": container main does not run: ImagePullBackOff"},
		"image is reported before": {step: creation, pod: waits("ErrImagePull", "no such image"), reason: rules.PodNotRunning, message: "container main does not run: ErrImagePull: no such image"},
		"never scheduled":          {step: creation, pod: unscheduled, reason: rules.CreationFailed, message: timeout + ": is not scheduled: 0/0 nodes are available"},
	})
}
