// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/test/integration/fixture"
)

const withStaging = `
apiVersion: stowage.dev/v1alpha1
kind: PavProvisioner
metadata: {name: x}
spec:
  provisioningModes: [Dynamic, Static]
  backoff: {initial: 100ms, max: 1s}
  volumeValidation:
    accessModes: [ReadWriteOnce, ReadWriteMany]
  volumeCreation: {capacity: "{{ requestedMinCapacity }}"}
  volumeStaging:
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["{{ pvc.metadata.name }}"]}]}}
  volumeUnstaging:
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["{{ pvc.metadata.name }}"]}]}}
`

// directory is the report of a staging pod with a volume.
var directory = report.Report{Volume: report.Volume{Kind: report.Directory, FileSystem: "0:1", Inode: 2}}

// stages is a program whose staging pods do what staging returns, and whose other pods succeed.
func stages(staging func(claim string, number int) outcome) program {
	return func(claim string, step helperpod.Step, number int) outcome {
		switch step {
		case helperpod.Staging:
			return staging(claim, number)
		default:
			return exit(report.Report{}, 0)
		}
	}
}

func alwaysReady(string, int) outcome { return ready }

// user creates a claim with its volume, and a pod that uses it on a node.
func user(e *fixture.Env, claim, node string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	e.T.Helper()
	created := e.CreatePVC(e.PVC(claim).Class(e.Name("made")).Change(func(c *corev1.PersistentVolumeClaim) {
		if len(modes) > 0 {
			c.Spec.AccessModes = modes
		}
	}))
	volume := boundTo(e, created)
	use(e, claim, node)
	return persistentVolume(e, volume.Name)
}

// use creates a pod on a node that uses a claim.
func use(e *fixture.Env, claim, node string) *corev1.Pod {
	e.T.Helper()
	return fixture.Get(e, func(ctx context.Context) (*corev1.Pod, error) {
		return e.Client.CoreV1().Pods(e.Namespace).Create(ctx, e.Pod(claim+"-on-"+node).PVC(claim).Node(node).Obj(), metav1.CreateOptions{})
	})
}

// unuse deletes the pod that uses a claim on a node.
func unuse(e *fixture.Env, claim, node string) {
	e.T.Helper()
	e.Do(func(ctx context.Context) error {
		return e.Client.CoreV1().Pods(e.Namespace).Delete(ctx, claim+"-on-"+node, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
}

// otherNode creates a node.
func otherNode(e *fixture.Env, short string) string {
	e.T.Helper()
	e.Do(func(ctx context.Context) error {
		_, err := e.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.Name(short)}}, metav1.CreateOptions{})
		return err
	})
	e.T.Cleanup(func() {
		_ = e.Client.CoreV1().Nodes().Delete(context.WithoutCancel(e.Context()), e.Name(short), metav1.DeleteOptions{})
	})
	return e.Name(short)
}

// request creates a PavStaging as the node service of a node does, and returns its name.
func request(e *fixture.Env, handle, node string) string {
	e.T.Helper()
	name := stowage.PavStagingName(e.Namespace, handle, node)
	e.Do(func(ctx context.Context) error {
		_, err := clients.Stagings.Create(ctx, &stowage.PavStaging{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       stowage.PavStagingSpec{Provisioner: e.Namespace, Handle: handle, NodeName: node, BootID: "boot-1"},
		}, metav1.CreateOptions{})
		return err
	})
	return name
}

// inPhase waits until a PavStaging is in a phase.
func inPhase(e *fixture.Env, name string, phase stowage.PavStagingPhase) *stowage.PavStaging {
	e.T.Helper()
	return seen(e, clients.Stagings, name, func(s *stowage.PavStaging) bool { return s.Status.Phase == phase })
}

// staged waits until a volume is staged.
func staged(e *fixture.Env, name string) *stowage.PavStaging {
	e.T.Helper()
	return inPhase(e, name, stowage.PavStagingStaged)
}

// condition waits until a condition of a PavStaging has a reason and a message.
func condition(e *fixture.Env, name, kind string, reason rules.Reason, message string) *stowage.PavStaging {
	e.T.Helper()
	return seen(e, clients.Stagings, name, func(s *stowage.PavStaging) bool {
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		return c != nil && c.Reason == string(reason) && strings.Contains(c.Message, message)
	})
}

// patchStaging changes a PavStaging by a JSON merge patch.
func patchStaging(e *fixture.Env, name, patch string) {
	e.T.Helper()
	fixture.Get(e, func(ctx context.Context) (*stowage.PavStaging, error) {
		return clients.Stagings.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	})
}

// clears confirms, as the node service does, that nothing of a volume is left, once the volume is unstaged.
func clears(e *fixture.Env, name string) {
	e.T.Helper()
	inPhase(e, name, stowage.PavStagingClearing)
	patchStaging(e, name, `{"spec":{"clearedAttempt":1000}}`)
}

// unrequest deletes a PavStaging as the node service does.
func unrequest(e *fixture.Env, name string) {
	e.T.Helper()
	e.Do(func(ctx context.Context) error { return clients.Stagings.Delete(ctx, name, metav1.DeleteOptions{}) })
}

// unstaged deletes a PavStaging, and waits until its volume is unstaged.
func unstaged(e *fixture.Env, name string) {
	e.T.Helper()
	unrequest(e, name)
	clears(e, name)
	gone(e, clients.Stagings, &stowage.PavStaging{}, name)
}

// helper returns the current helper pod of a PavStaging.
func helper(e *fixture.Env, s *stowage.PavStaging) *corev1.Pod {
	e.T.Helper()
	return fixture.Get(e, func(ctx context.Context) (*corev1.Pod, error) {
		return e.Client.CoreV1().Pods(s.Status.Step.PodNamespace).Get(ctx, s.Status.Step.PodName, metav1.GetOptions{})
	})
}

// A staging pod runs on the node for as long as the volume is requested there. No eviction removes it,
// and the volume is not deleted before it is unstaged, by the revision that staged it.
func TestStaged(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withStaging, corev1.PersistentVolumeReclaimDelete, stages(alwaysReady))
	revision := accepted(e, 1)
	pv := user(e, "c", nodeName)
	name := request(e, pv.Spec.CSI.VolumeHandle, nodeName)
	s := staged(e, name)
	if s.Status.VolumeName != pv.Name || s.Status.Revision != revision || s.Status.BootID != "boot-1" || s.Status.StagedAttempt != 1 {
		t.Errorf("status %+v", s.Status)
	}
	pod := helper(e, s)
	wantPath := "/var/lib/stowage/pav/" + name[:32] + "/" + string(s.UID) + "/1/pav"
	if path := pod.Spec.Volumes[0].HostPath; path == nil || path.Path != wantPath {
		t.Errorf("volumes %+v, want the directory %s of the node", pod.Spec.Volumes, wantPath)
	}
	if nodeOf(pod) != nodeName || pod.Spec.PriorityClassName != "stowage-pav" || pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever {
		t.Errorf("node %s, class %s, preemption %v", nodeOf(pod), pod.Spec.PriorityClassName, pod.Spec.PreemptionPolicy)
	}
	seen(e, e.Client.PolicyV1().PodDisruptionBudgets(namespace), "stowage-pav-staging", func(b *policyv1.PodDisruptionBudget) bool {
		return b.Spec.MinAvailable.IntValue() > 1_000_000 && b.Spec.Selector.MatchLabels["stowage.dev/pav-step"] == "staging"
	})
	patchSpec(e, `{"volumeUnstaging":{"podTemplate":"{{ undefined }}"}}`)
	accepted(e, 2)
	unuse(e, "c", nodeName)
	e.DeletePVC("c")
	if err := clients.Provisioners.Delete(e.Context(), e.Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	seen(e, clients.Volumes, pv.Name, func(v *stowage.PavVolume) bool {
		c := meta.FindStatusCondition(v.Status.Conditions, stowage.ConditionDeletable)
		return c != nil && strings.Contains(c.Message, nodeName)
	})
	unstaged(e, name)
	gone(e, clients.Volumes, &stowage.PavVolume{}, pv.Name)
	gone(e, clients.Provisioners, &stowage.PavProvisioner{}, e.Namespace)
}

// What cannot be staged is reported by the condition Staged, and is staged once it can be.
func TestStagingRefused(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withStaging, corev1.PersistentVolumeReclaimDelete, stages(alwaysReady))
	t.Run("no volume has the handle", func(t *testing.T) {
		name := request(e, "none", nodeName)
		condition(e, name, stowage.ConditionStaged, rules.NotFound, `"none"`)
		unrequest(e, name)
		gone(e, clients.Stagings, &stowage.PavStaging{}, name)
	})
	t.Run("no pod on the node uses the volume", func(t *testing.T) {
		pv := user(e, "elsewhere", nodeName)
		other := otherNode(e, "n1")
		name := request(e, pv.Spec.CSI.VolumeHandle, other)
		condition(e, name, stowage.ConditionStaged, rules.Unused, "no pod on node "+other)
		use(e, "elsewhere", other)
		staged(e, name)
		unstaged(e, name)
	})
	for row, tc := range map[string]struct {
		change  func(*corev1.PersistentVolume)
		reason  rules.Reason
		message string
	}{
		"a mount option": {
			func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"suid"} }, rules.NotSupported, `spec.mountOptions`,
		},
		"a type of file system": {
			func(pv *corev1.PersistentVolume) { pv.Spec.CSI.FSType = "ext4" }, rules.NotSupported, `spec.csi.fsType`,
		},
		"an access mode that validation excludes": {
			func(pv *corev1.PersistentVolume) {
				pv.Spec.AccessModes = append(pv.Spec.AccessModes, corev1.ReadOnlyMany)
			}, rules.Invalid, `volumeValidation.accessModes`,
		},
	} {
		t.Run(row, func(t *testing.T) {
			short := strings.ReplaceAll(row, " ", "-")
			handle := static(e, short, tc.change)
			name := request(e, handle, nodeName)
			condition(e, name, stowage.ConditionStaged, tc.reason, tc.message)
			unrequest(e, name)
			gone(e, clients.Stagings, &stowage.PavStaging{}, name)
		})
	}
	t.Run("two volumes with one handle", func(t *testing.T) {
		handle := static(e, "first", func(*corev1.PersistentVolume) {})
		static(e, "second", func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = handle })
		name := request(e, handle, nodeName)
		condition(e, name, stowage.ConditionStaged, rules.HandleShared, e.Name("second"))
		unuse(e, "second", nodeName)
		e.DeletePVC("second")
		e.DeletePV("second")
		staged(e, name)
		unstaged(e, name)
	})
}

// static creates a PersistentVolume with a claim of the same name that is bound to it, and a pod that
// uses it on the node of the tests. It returns the handle.
func static(e *fixture.Env, short string, change func(*corev1.PersistentVolume)) string {
	e.T.Helper()
	handle := "handle-" + short
	pv := e.CreatePVs(e.PV(short).Class("").Change(func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: e.Namespace, VolumeHandle: handle}}
		pv.Spec.NodeAffinity = nil
		change(pv)
	}))[0]
	e.CreatePVC(e.PVC(short).Class("").Change(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = pv.Name }))
	e.WaitPVC(short, "bound", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
	use(e, short, nodeName)
	return handle
}

// A static volume is validated when it is staged, by a pod if the provisioner has one.
func TestStaticVolume(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	text := strings.Replace(withStaging, "    accessModes: [ReadWriteOnce, ReadWriteMany]\n", "    podTemplate: {spec: {containers: [{name: main, image: i, args: [\"{{ handle }}\"]}]}}\n", 1)
	provide(e, text, corev1.PersistentVolumeReclaimDelete, func(handle string, step helperpod.Step, number int) outcome {
		switch {
		case step == helperpod.Staging:
			return ready
		case step == helperpod.Validation && number == 1 && handle == "handle-c":
			return exit(report.Report{Error: "no such share"}, 1)
		default:
			return exit(report.Report{}, 0)
		}
	})
	handle := static(e, "c", func(*corev1.PersistentVolume) {})
	name := request(e, handle, nodeName)
	e.WaitEvent(e.Namespace, "c", string(rules.Invalid), "no such share")
	if s := staged(e, name); s.Status.StagedAttempt != 3 {
		t.Errorf("attempt %d staged the volume, want 3: two pods validated it", s.Status.StagedAttempt)
	}
	unstaged(e, name)
}

// A staging pod that succeeds has staged the volume if it left one. One that fails, leaves no volume, or
// ends after it was ready, is followed by an unstaging pod, and by the next attempt after the node has
// confirmed that nothing is left.
func TestStagingPods(t *testing.T) {
	t.Parallel()
	for row, tc := range map[string]struct {
		first   outcome
		message string
	}{
		"fails":                      {exit(report.Report{Error: "no device"}, 1), "no device"},
		"succeeds without a volume":  {exit(report.Report{}, 0), "/pav/volume does not exist"},
		"succeeds with a device":     {exit(report.Report{Volume: report.Volume{Kind: report.BlockDevice, Bytes: 1}}, 0), "must be a Directory"},
		"is ready, and then deleted": {ready, "deleted before its containers ended"},
		"runs for too long":          {runs, "was not ready within"},
	} {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			text := withStaging
			slow := row == "runs for too long"
			if slow {
				// On a loaded machine, a pod that gets ready may exceed this, too: another attempt follows.
				text = strings.Replace(text, "  backoff:", "  timeouts: {staging: 1s}\n  backoff:", 1)
			}
			provide(e, text, corev1.PersistentVolumeReclaimDelete, stages(func(_ string, number int) outcome {
				if number == 1 {
					return tc.first
				}
				return exit(directory, 0)
			}))
			name := request(e, user(e, "c", nodeName).Spec.CSI.VolumeHandle, nodeName)
			if strings.HasPrefix(row, "is ready") {
				pod := helper(e, staged(e, name))
				e.Do(func(ctx context.Context) error {
					return e.Client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
				})
			}
			e.WaitEvent(e.Namespace, "c", string(rules.StagingFailed), tc.message)
			clears(e, name)
			s := seen(e, clients.Stagings, name, func(s *stowage.PavStaging) bool {
				return s.Status.Phase == stowage.PavStagingStaged && s.Status.StagedAttempt > 1 && s.Status.Step == nil
			})
			attempt := s.Status.StagedAttempt
			if attempt%2 == 0 || attempt > 3 && !slow || s.Status.Failures == 0 || s.Status.LastError == nil {
				t.Errorf("status %+v, want that pod 3 staged the volume, after pod 2 unstaged it", s.Status)
			}
			patchStaging(e, name, fmt.Sprintf(`{"spec":{"clearedAttempt":%d,"volume":{"attempt":%d,"fileSystem":"8:1","inode":"2"}}}`, attempt-1, attempt))
			seen(e, clients.Stagings, name, func(s *stowage.PavStaging) bool { return s.Status.Failures == 0 })
			unstaged(e, name)
		})
	}
}

// A volume that one node can use at a time is on one node at a time. NotReady does not end that, the
// taint of an administrator does.
func TestOneNode(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withStaging, corev1.PersistentVolumeReclaimDelete, stages(alwaysReady))
	pv := user(e, "c", nodeName)
	other := otherNode(e, "n1")
	use(e, "c", other)
	first := request(e, pv.Spec.CSI.VolumeHandle, other)
	staged(e, first)
	second := request(e, pv.Spec.CSI.VolumeHandle, nodeName)
	condition(e, second, stowage.ConditionStaged, rules.StagedElsewhere, "is staged on node "+other)
	unstaged(e, first)
	staged(e, second)
	third := request(e, pv.Spec.CSI.VolumeHandle, other)
	condition(e, third, stowage.ConditionStaged, rules.StagedElsewhere, "is staged on node "+nodeName)
	unstaged(e, second)
	staged(e, third)
	fourth := request(e, pv.Spec.CSI.VolumeHandle, nodeName)
	condition(e, fourth, stowage.ConditionStaged, rules.StagedElsewhere, "is staged on node "+other)
	e.PatchNode(other, map[string]any{"spec": map[string]any{"taints": []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}}})
	gone(e, clients.Stagings, &stowage.PavStaging{}, third)
	e.WaitEvent(e.Namespace, "c", string(rules.Abandoned), corev1.TaintNodeOutOfService)
	staged(e, fourth)
	unstaged(e, fourth)
}

// Many nodes request a volume at the same time. One gets it if one node can use it at a time, then each
// of the others in turn; all get it if many can.
func TestNodesAtOnce(t *testing.T) {
	t.Parallel()
	for row, tc := range map[string]struct {
		mode     corev1.PersistentVolumeAccessMode
		together int
	}{
		"ReadWriteOnce": {corev1.ReadWriteOnce, 1},
		"ReadWriteMany": {corev1.ReadWriteMany, 6},
	} {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			provide(e, withStaging, corev1.PersistentVolumeReclaimDelete, stages(alwaysReady))
			pv := user(e, "c", nodeName, tc.mode)
			left := map[string]bool{}
			for _, short := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
				use(e, "c", otherNode(e, short))
			}
			for _, short := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
				left[request(e, pv.Spec.CSI.VolumeHandle, e.Name(short))] = true
			}
			for len(left) > 0 {
				holders := map[string]bool{}
				seen(e, clients.Stagings, "", func(s *stowage.PavStaging) bool {
					if left[s.Name] && s.Status.Phase == stowage.PavStagingStaged {
						holders[s.Name] = true
					}
					return len(holders) == tc.together
				})
				list := fixture.Get(e, func(ctx context.Context) (*stowage.PavStagingList, error) {
					return clients.Stagings.List(ctx, metav1.ListOptions{})
				})
				held := 0
				for _, s := range list.Items {
					if left[s.Name] && rules.Holds(&s) {
						held++
					}
				}
				if held != tc.together {
					t.Errorf("%d nodes have the volume, want %d", held, tc.together)
				}
				for name := range holders {
					unstaged(e, name)
					delete(left, name)
				}
			}
		})
	}
}

// The stagings of a node that is gone end without unstaging, also if it is created again under its name.
func TestStagingNodeGone(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withStaging, corev1.PersistentVolumeReclaimDelete, stages(alwaysReady))
	node := otherNode(e, "n1")
	pv := user(e, "c", node)
	name := request(e, pv.Spec.CSI.VolumeHandle, node)
	s := staged(e, name)
	e.Do(func(ctx context.Context) error {
		return e.Client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
	})
	gone(e, clients.Stagings, &stowage.PavStaging{}, name)
	gone(e, e.Client.CoreV1().Pods(namespace), &corev1.Pod{}, s.Status.Step.PodName)
	e.WaitEvent(e.Namespace, "c", string(rules.Abandoned), "does not exist")
}

// A node that has rebooted has nothing left of a volume, which is unstaged and staged again. An
// administrator can end a staging by an annotation.
func TestRebooted(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withStaging, corev1.PersistentVolumeReclaimDelete, stages(alwaysReady))
	pv := user(e, "c", nodeName)
	name := request(e, pv.Spec.CSI.VolumeHandle, nodeName)
	staged(e, name)
	patchStaging(e, name, `{"spec":{"bootID":"boot-2"}}`)
	clears(e, name)
	seen(e, clients.Stagings, name, func(s *stowage.PavStaging) bool {
		return s.Status.Phase == stowage.PavStagingStaged && s.Status.BootID == "boot-2" && s.Status.StagedAttempt == 3
	})
	patchStaging(e, name, `{"metadata":{"annotations":{"stowage.dev/pav-unstaged":"true"}}}`)
	gone(e, clients.Stagings, &stowage.PavStaging{}, name)
}

// Unstaging is repeated until it succeeds. An administrator repairs it by a later revision.
func TestUnstagingFails(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	text := strings.Replace(withStaging, `  volumeUnstaging:
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["{{ pvc.metadata.name }}"]}]}}`, `  volumeUnstaging:
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["broken"]}]}}`, 1)
	provide(e, text, corev1.PersistentVolumeReclaimDelete, func(argument string, step helperpod.Step, _ int) outcome {
		switch {
		case step == helperpod.Staging:
			return ready
		case argument == "broken":
			return exit(report.Report{Error: "busy"}, 1)
		default:
			return exit(report.Report{}, 0)
		}
	})
	pv := user(e, "c", nodeName)
	name := request(e, pv.Spec.CSI.VolumeHandle, nodeName)
	staged(e, name)
	unrequest(e, name)
	condition(e, name, stowage.ConditionUnstageable, rules.UnstagingFailed, "busy")
	seen(e, clients.Stagings, name, func(s *stowage.PavStaging) bool { return s.Status.UnstagingFailures >= 3 })
	patchSpec(e, `{"volumeUnstaging":{"podTemplate":{"spec":{"containers":[{"name":"main","image":"i"}]}}}}`)
	accepted(e, 2)
	patchStaging(e, name, `{"spec":{"useRevision":"Latest"}}`)
	clears(e, name)
	gone(e, clients.Stagings, &stowage.PavStaging{}, name)
}

// A PavStaging that vanishes, its finalizer stripped, takes its helper pod with it.
func TestStagingVanishes(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withStaging, corev1.PersistentVolumeReclaimDelete, stages(alwaysReady))
	pv := user(e, "c", nodeName)
	name := request(e, pv.Spec.CSI.VolumeHandle, nodeName)
	pod := helper(e, staged(e, name))
	unrequest(e, name)
	patchStaging(e, name, `{"metadata":{"finalizers":null}}`)
	gone(e, e.Client.CoreV1().Pods(namespace), &corev1.Pod{}, pod.Name)
	staged(e, request(e, pv.Spec.CSI.VolumeHandle, nodeName))
	unstaged(e, name)
}

// Staging pods in the namespace of the claim have a PodDisruptionBudget there, and no PriorityClass if a
// quota refuses it.
func TestStagingInClaimNamespace(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	text := strings.Replace(withStaging, "  volumeStaging:\n    podTemplate: {", "  podNamespaces: {claim: true}\n  volumeStaging:\n    podTemplate: {metadata: {namespace: \"{{ pvc.metadata.namespace }}\"}, ", 1)
	provide(e, text, corev1.PersistentVolumeReclaimDelete, stages(alwaysReady))
	pv := user(e, "c", nodeName)
	fixture.Get(e, func(ctx context.Context) (*corev1.ResourceQuota, error) {
		return e.Client.CoreV1().ResourceQuotas(e.Namespace).Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "q"},
			Spec: corev1.ResourceQuotaSpec{
				Hard:          corev1.ResourceList{corev1.ResourcePods: {}},
				ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpExists}}},
			},
		}, metav1.CreateOptions{})
	})
	seen(e, e.Client.CoreV1().ResourceQuotas(e.Namespace), "q", func(q *corev1.ResourceQuota) bool { return q.Status.Hard != nil })
	name := request(e, pv.Spec.CSI.VolumeHandle, nodeName)
	pod := helper(e, staged(e, name))
	if pod.Namespace != e.Namespace || pod.Spec.PriorityClassName != "" {
		t.Errorf("namespace %s, class %s, want that of the claim and none", pod.Namespace, pod.Spec.PriorityClassName)
	}
	e.WaitEvent(e.Namespace, "c", string(rules.NoPriority), "exceeded quota")
	budgets := e.Client.PolicyV1().PodDisruptionBudgets(e.Namespace)
	seen(e, budgets, "stowage-pav-staging", func(*policyv1.PodDisruptionBudget) bool { return true })
	e.Do(func(ctx context.Context) error { // what others change is repaired
		_, err := budgets.Patch(ctx, "stowage-pav-staging", types.MergePatchType, []byte(`{"spec":{"minAvailable":0}}`), metav1.PatchOptions{})
		return err
	})
	seen(e, budgets, "stowage-pav-staging", func(b *policyv1.PodDisruptionBudget) bool { return b.Spec.MinAvailable.IntValue() > 0 })
	unstaged(e, name)
	gone(e, budgets, &policyv1.PodDisruptionBudget{}, "stowage-pav-staging")
}

// In a claim's namespace with the Pod Security Standard restricted, creation pods that fulfill it run
// with the reporter. Staging pods mount a directory of the node: the claim has an event that says so,
// and one if a quota refuses them.
func TestRestrictedNamespace(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	const (
		inClaim    = "metadata: {namespace: \"{{ pvc.metadata.namespace }}\"}, "
		restricted = "securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, runAsUser: 1000, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}"
	)
	text := strings.NewReplacer(
		"  volumeStaging:\n    podTemplate: {", "  podNamespaces: {claim: true}\n  volumeStaging:\n    podTemplate: {"+inClaim,
		`  volumeCreation: {capacity: "{{ requestedMinCapacity }}"}`,
		"  volumeCreation:\n    podTemplate: {"+inClaim+"spec: {containers: [{name: main, image: i, "+restricted+"}]}}",
	).Replace(withStaging)
	provide(e, text, corev1.PersistentVolumeReclaimDelete, func(_ string, step helperpod.Step, _ int) outcome {
		if step == helperpod.Creation {
			return exit(report.Report{Capacity: new("1Gi")}, 0)
		}
		return exit(report.Report{}, 0)
	})
	used, quota := user(e, "used", nodeName), user(e, "quota", nodeName)
	enforce := func(level string) {
		e.Do(func(ctx context.Context) error {
			patch := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"` + level + `"}}}`
			_, err := e.Client.CoreV1().Namespaces().Patch(ctx, e.Namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
	enforce("restricted")
	name := request(e, used.Spec.CSI.VolumeHandle, nodeName)
	e.WaitEvent(e.Namespace, "used", string(rules.StagingFailed), "violates PodSecurity")
	boundTo(e, e.CreatePVC(e.PVC("restricted").Class(e.Name("made"))))
	unrequest(e, name)
	gone(e, clients.Stagings, &stowage.PavStaging{}, name)

	noPods(e)
	enforce("privileged")
	name = request(e, quota.Spec.CSI.VolumeHandle, nodeName)
	e.WaitEvent(e.Namespace, "quota", string(rules.StagingFailed), "exceeded quota")
	unrequest(e, name)
	gone(e, clients.Stagings, &stowage.PavStaging{}, name)
}
