// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/integration/fixture"
)

// provide creates a PavProvisioner with the name of the Env, waits until it is accepted, and
// creates an immediate class "made" of it. Its deletion after the test waits for no volume.
func provide(e *fixture.Env, text string, policy corev1.PersistentVolumeReclaimPolicy, run program) {
	e.T.Helper()
	if run != nil {
		programs.Store(e.Namespace, run)
	}
	create(e, text)
	accepted(e, 1)
	e.CreateClass(e.Class("made").Provisioner(e.Namespace).Immediate().ReclaimPolicy(policy))
}

// create creates a PavProvisioner with the name of the Env.
func create(e *fixture.Env, text string) {
	e.T.Helper()
	p := &stowage.PavProvisioner{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		e.T.Fatal(err)
	}
	p.Name = e.Namespace
	if _, err := clients.Provisioners.Create(e.Context(), p, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		e.T.Fatal(err)
	}
}

// accepted waits until a generation of the Env's provisioner is accepted, and returns its revision.
func accepted(e *fixture.Env, generation int64) string {
	e.T.Helper()
	return seen(e, clients.Provisioners, e.Namespace, func(p *stowage.PavProvisioner) bool {
		return p.Status.ObservedGeneration == generation && meta.IsStatusConditionTrue(p.Status.Conditions, stowage.ConditionAccepted)
	}).Status.Revision
}

// bound creates a claim of the class, and waits until it has its volume.
func bound(e *fixture.Env) (*corev1.PersistentVolumeClaim, *stowage.PavVolume) {
	e.T.Helper()
	claim := e.CreatePVC(e.PVC("c").Class(e.Name("made")))
	return claim, boundTo(e, claim)
}

// boundTo waits until a claim has its volume.
func boundTo(e *fixture.Env, claim *corev1.PersistentVolumeClaim) *stowage.PavVolume {
	e.T.Helper()
	name := rules.VolumeName(claim.UID)
	e.WaitPVC(claim.Name, "bound to "+name, func(c *corev1.PersistentVolumeClaim) bool {
		return c.Spec.VolumeName == name && c.Status.Phase == corev1.ClaimBound
	})
	return seen(e, clients.Volumes, name, func(v *stowage.PavVolume) bool { return v.Status.Phase == stowage.PavVolumeProvisioned })
}

func persistentVolume(e *fixture.Env, name string) *corev1.PersistentVolume {
	e.T.Helper()
	return seen(e, e.Client.CoreV1().PersistentVolumes(), name, func(*corev1.PersistentVolume) bool { return true })
}

// removed deletes the claim, and waits until nothing of its volume is left.
func removed(e *fixture.Env, claim *corev1.PersistentVolumeClaim) {
	e.T.Helper()
	e.DeletePVC(claim.Name)
	nothingLeft(e, claim)
}

// nothingLeft waits until nothing of a claim's volume is left.
func nothingLeft(e *fixture.Env, claim *corev1.PersistentVolumeClaim) {
	e.T.Helper()
	name := rules.VolumeName(claim.UID)
	gone(e, e.Client.CoreV1().PersistentVolumes(), &corev1.PersistentVolume{}, name)
	gone(e, clients.Volumes, &stowage.PavVolume{}, name)
}

// gone waits until an object does not exist.
func gone[L runtime.Object](e *fixture.Env, kind await.Kind[L], example runtime.Object, name string) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	only := func(o metav1.ListOptions) metav1.ListOptions { o.FieldSelector = "metadata.name=" + name; return o }
	_, err := watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return kind.List(ctx, only(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return kind.Watch(ctx, only(o))
		},
	}, example, func(store cache.Store) (bool, error) { return len(store.List()) == 0, nil },
		func(event watch.Event) (bool, error) { return event.Type == watch.Deleted, nil })
	if err != nil {
		e.T.Fatalf("%T %s is not deleted: %v", example, name, err)
	}
}

// seen waits until is accepts an object.
func seen[T runtime.Object, L runtime.Object](e *fixture.Env, kind await.Kind[L], name string, is func(T) bool) T {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	object, err := await.Object(ctx, kind, name, is)
	if err != nil {
		e.T.Fatalf("waited %s for %s: %v: %+v", e.Timeout, name, err, object)
	}
	return object
}

// helloWorld returns the example.
func helloWorld(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(manifests + "pav/examples/hello-world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The example hello-world needs no helper pod to make a volume or to delete it. The provisioner is
// deleted with its CSIDriver once it has no volume.
func TestHelloWorld(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, helloWorld(t), corev1.PersistentVolumeReclaimDelete, nil)
	claim, volume := bound(e)
	pv := persistentVolume(e, volume.Name)
	if csi := pv.Spec.CSI; csi == nil || csi.Driver != e.Namespace || csi.VolumeHandle != volume.Name {
		t.Errorf("source %+v, want driver %s and the default handle", pv.Spec.PersistentVolumeSource, e.Namespace)
	}
	driver, err := e.Client.StorageV1().CSIDrivers().Get(e.Context(), e.Namespace, metav1.GetOptions{})
	if err != nil || *driver.Spec.AttachRequired {
		t.Errorf("CSIDriver %+v, error %v, want one without attachment", driver, err)
	}
	if err := clients.Provisioners.Delete(e.Context(), e.Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	seen(e, clients.Provisioners, e.Namespace, func(p *stowage.PavProvisioner) bool {
		condition := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionAccepted)
		return condition != nil && condition.Reason == "Deleting" && strings.Contains(condition.Message, volume.Name)
	})
	removed(e, claim)
	gone(e, clients.Provisioners, &stowage.PavProvisioner{}, e.Namespace)
	if _, err := e.Client.StorageV1().CSIDrivers().Get(e.Context(), e.Namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("CSIDriver: error %v, want that it does not exist", err)
	}
}

const withPods = `
apiVersion: stowage.dev/v1alpha1
kind: PavProvisioner
metadata: {name: x}
spec:
  provisioningModes: [Dynamic]
  backoff: {initial: 100ms, max: 1s}
  volumeCreation:
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["{{ pvc.metadata.name }}"]}]}}
  volumeDeletion:
    podTemplate: {spec: {containers: [{name: main, image: i}]}}
  volumeStaging:
    podTemplate: {spec: {containers: [{name: main, image: i}]}}
`

// A creation that fails is reported with the text of /pav/error, reverted and repeated. The volume
// is deleted by the revision that made it, whose deletion fails once, too.
func TestFailuresAndRevisions(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withPods, corev1.PersistentVolumeReclaimDelete, func(_ string, step helperpod.Step, number int) outcome {
		switch {
		case step == helperpod.Creation && number == 1:
			return exit(report.Report{Error: "the pool is full"}, 1)
		case step == helperpod.Creation:
			return exit(report.Report{Handle: new("h1"), Capacity: new("2Gi")}, 0)
		case step == helperpod.Deletion && number == 2:
			return exit(report.Report{Error: "the volume is busy"}, 1)
		default:
			return exit(report.Report{}, 0)
		}
	})
	first := accepted(e, 1)
	claim, volume := bound(e)
	e.WaitEvent(e.Namespace, "c", string(rules.CreationFailed), "the pool is full")
	pv := persistentVolume(e, volume.Name)
	if size := pv.Spec.Capacity[corev1.ResourceStorage]; pv.Spec.CSI.VolumeHandle != "h1" || size.Cmp(resource.MustParse("2Gi")) != 0 {
		t.Errorf("handle %s, capacity %s, want h1 and 2Gi", pv.Spec.CSI.VolumeHandle, size.String())
	}
	if volume.Spec.Revision != first || volume.Status.Step != nil || volume.Status.Failures != 0 {
		t.Errorf("revision %s, status %+v, want revision %s and no step", volume.Spec.Revision, volume.Status, first)
	}
	if _, err := clients.Provisioners.Patch(e.Context(), e.Namespace, "application/merge-patch+json", []byte(`{"spec":{"volumeDeletion":{"podTemplate":"{{ undefined }}"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if second := accepted(e, 2); second == first {
		t.Errorf("revision %s after a change, want another one", second)
	}
	removed(e, claim)
	e.WaitEvent("default", volume.Name, string(rules.DeletionFailed), "the volume is busy")
}

// A retained volume stays after its PersistentVolume is deleted, until its PavVolume is.
func TestRetain(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withPods, corev1.PersistentVolumeReclaimRetain, func(_ string, step helperpod.Step, _ int) outcome {
		if step == helperpod.Deletion {
			t.Error("a deletion pod runs")
		}
		return exit(report.Report{Capacity: new("1Gi")}, 0)
	})
	claim, volume := bound(e)
	e.DeletePVC(claim.Name)
	pvs := e.Client.CoreV1().PersistentVolumes()
	seen(e, pvs, volume.Name, func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeReleased })
	if err := pvs.Delete(e.Context(), volume.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	seen(e, clients.Volumes, volume.Name, func(v *stowage.PavVolume) bool {
		condition := meta.FindStatusCondition(v.Status.Conditions, stowage.ConditionProvisioned)
		return condition != nil && condition.Reason == string(rules.Kept)
	})
	if err := clients.Volumes.Delete(e.Context(), volume.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(e, clients.Volumes, &stowage.PavVolume{}, volume.Name)
}
