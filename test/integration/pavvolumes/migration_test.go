// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// original is the prefix of the keys of the original PaV, 0.1.1.
const original = "pav.albertofaria.github.io/"

// moved is a provisioner of the original with the apiVersion of Stowage.
const moved = `
apiVersion: stowage.dev/v1alpha1
kind: PavProvisioner
metadata: {name: x}
spec:
  provisioningModes: [Dynamic, Static]
  backoff: {initial: 100ms, max: 1s}
  volumeCreation:
    capacity: 1Gi
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["{{ defaultHandle }}"]}]}}
  volumeDeletion:
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["{{ pvc.metadata.name }} {{ params.location }}"]}]}}
  volumeStaging:
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["{{ handle }} {{ params.location }}"]}]}}
  volumeUnstaging:
    podTemplate: {spec: {containers: [{name: main, image: i, args: ["{{ handle }} {{ params.location }}"]}]}}
`

// migration is a provisioner of the original whose volumes are moved.
type migration struct {
	*fixture.Env
	mu   sync.Mutex
	pods []string // steps and arguments of helper pods
}

func (m *migration) run(argument string, step helperpod.Step, _ int) outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods = append(m.pods, string(step)+" "+argument)
	if step == helperpod.Staging {
		return ready
	}
	return exit(report.Report{}, 0)
}

// ran returns the arguments of the helper pods of a step.
func (m *migration) ran(step helperpod.Step) (arguments []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range m.pods {
		if argument, of := strings.CutPrefix(pod, string(step)+" "); of {
			arguments = append(arguments, argument)
		}
	}
	return arguments
}

// originalDriver creates the CSIDriver of the original.
func (m *migration) originalDriver() {
	m.T.Helper()
	fixture.Get(m.Env, func(ctx context.Context) (*storagev1.CSIDriver, error) {
		driver := builders.MakeCSIDriver(m.Namespace).Obj()
		driver.Spec.AttachRequired, driver.Spec.PodInfoOnMount = new(false), new(true)
		return m.Client.StorageV1().CSIDrivers().Create(ctx, driver, metav1.CreateOptions{})
	})
}

// originalVolume creates a claim and a PersistentVolume as the original and the external-provisioner 2.2.1
// that it runs leave them, and returns after the claim is bound.
func (m *migration) originalVolume(short string, policy corev1.PersistentVolumeReclaimPolicy) {
	m.T.Helper()
	handle := "bucket-of-" + short
	claim := m.CreatePVC(m.PVC(short).Class(m.Name("made")).Label(original+"provisioner", m.Namespace).
		Annotation(original+"state", `{"name": "Created", "handle": "`+handle+`", "capacity": "1073741824"}`).
		Annotation(original+"storage-class", `{"metadata": {"name": "`+m.Name("made")+`"}, "parameters": {"location": "EU"}, "provisioner": "`+m.Namespace+`"}`).
		Change(func(c *corev1.PersistentVolumeClaim) {
			c.Finalizers = []string{original + "delete-volume", original + "kopf"}
		}))
	m.WaitPVC(short, "requested from the provisioner", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Annotations["volume.kubernetes.io/storage-provisioner"] == m.Namespace
	})
	fixture.Get(m.Env, func(ctx context.Context) (*corev1.PersistentVolume, error) {
		return m.Client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": m.Namespace}},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: claim.Spec.AccessModes, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
				PersistentVolumeReclaimPolicy: policy, StorageClassName: *claim.Spec.StorageClassName,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: m.Namespace, VolumeHandle: handle,
					VolumeAttributes: map[string]string{"location": "EU", "storage.kubernetes.io/csiProvisionerIdentity": "1638316800000-8081-" + m.Namespace},
				}},
			},
		}, metav1.CreateOptions{})
	})
	m.volume(short)
}

// volume returns the PersistentVolume of a claim, which has to be bound to it.
func (m *migration) volume(short string) *corev1.PersistentVolume {
	m.T.Helper()
	claim := m.WaitBound(short, "")
	if want := rules.VolumeName(claim.UID); claim.Spec.VolumeName != want {
		m.T.Fatalf("claim %s is bound to %s, want %s", short, claim.Spec.VolumeName, want)
	}
	return seen(m.Env, m.Client.CoreV1().PersistentVolumes(), claim.Spec.VolumeName, func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeBound })
}

// pavVolumes are how many of the provisioner exist.
func (m *migration) pavVolumes() (n int) {
	m.T.Helper()
	for _, v := range fixture.Get(m.Env, func(ctx context.Context) (*stowage.PavVolumeList, error) {
		return clients.Volumes.List(ctx, metav1.ListOptions{})
	}).Items {
		if v.Spec.Provisioner == m.Namespace {
			n++
		}
	}
	return n
}

// use runs a pod with a volume, and has the volume staged and unstaged for it.
func (m *migration) use(short string) {
	m.T.Helper()
	pv := m.volume(short)
	use(m.Env, short, nodeName)
	name := request(m.Env, pv.Spec.CSI.VolumeHandle, nodeName)
	if s := staged(m.Env, name); s.Status.VolumeName != pv.Name {
		m.T.Errorf("PersistentVolume %s is staged, want %s", s.Status.VolumeName, pv.Name)
	}
	unuse(m.Env, short, nodeName)
	unstaged(m.Env, name)
	if want := "bucket-of-" + short + " EU"; !slices.Contains(m.ran(helperpod.Staging), want) || !slices.Contains(m.ran(helperpod.Unstaging), want) {
		m.T.Errorf("helper pods %v, want that %q is staged and unstaged", m.pods, want)
	}
}

// annotate sets the annotation of an adoption, or removes it for null.
func (m *migration) annotate(short, value string) *corev1.PersistentVolume {
	m.T.Helper()
	pv := m.volume(short)
	patchPV(m.Env, pv.Name, `{"metadata":{"annotations":{"stowage.dev/pav-adopt":`+value+`}}}`)
	return pv
}

// adopt adopts a volume.
func (m *migration) adopt(short string) *corev1.PersistentVolume {
	m.T.Helper()
	pv := m.annotate(short, `"true"`)
	v := seen(m.Env, clients.Volumes, pv.Name, func(v *stowage.PavVolume) bool {
		return meta.IsStatusConditionTrue(v.Status.Conditions, stowage.ConditionProvisioned)
	})
	if s := v.Status; s.Phase != stowage.PavVolumeProvisioned || s.Handle != pv.Spec.CSI.VolumeHandle || s.VolumeUID != pv.UID || s.Attempt != 0 {
		m.T.Errorf("status %+v of the PavVolume of %s", s, short)
	}
	finalized(m.Env, pv.Name, pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete)
	m.WaitEvent(m.Namespace, short, string(rules.Adopted), pv.Name)
	m.volume(short)
	return pv
}

// leave removes from a claim what the original waits for before it lets the claim go.
func (m *migration) leave(short string) {
	m.T.Helper()
	claims := m.Client.CoreV1().PersistentVolumeClaims(m.Namespace)
	m.Do(func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			claim, err := claims.Get(ctx, short, metav1.GetOptions{})
			if err != nil {
				return err
			}
			delete(claim.Labels, original+"provisioner")
			claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return strings.HasPrefix(f, original) })
			_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
			return err
		})
	})
}

// release deletes a claim, and waits until its PersistentVolume is Released.
func (m *migration) release(short string) *corev1.PersistentVolume {
	m.T.Helper()
	pv := m.volume(short)
	m.DeletePVC(short)
	return seen(m.Env, m.Client.CoreV1().PersistentVolumes(), pv.Name, func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeReleased })
}

// stop removes the PavProvisioner and its CSIDriver, whatever volumes exist.
func (m *migration) stop() {
	m.T.Helper()
	m.Do(func(ctx context.Context) error {
		return clients.Provisioners.Delete(ctx, m.Namespace, metav1.DeleteOptions{})
	})
	fixture.Get(m.Env, func(ctx context.Context) (*stowage.PavProvisioner, error) {
		return clients.Provisioners.Patch(ctx, m.Namespace, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	gone(m.Env, clients.Provisioners, &stowage.PavProvisioner{}, m.Namespace)
	m.deleteDriver()
}

func (m *migration) deleteDriver() {
	m.T.Helper()
	m.Do(func(ctx context.Context) error {
		err := m.Client.StorageV1().CSIDrivers().Delete(ctx, m.Namespace, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// beginMigration has volumes of the original, and creates the PavProvisioner in its place.
func beginMigration(t *testing.T, policies map[string]corev1.PersistentVolumeReclaimPolicy) *migration {
	t.Helper()
	m := &migration{Env: fixture.New(t)}
	programs.Store(m.Namespace, program(m.run))
	m.originalDriver()
	m.CreateClass(m.Class("made").Provisioner(m.Namespace).Immediate().Change(func(c *storagev1.StorageClass) {
		c.Parameters = map[string]string{"location": "EU"}
	}))
	for short, policy := range policies {
		m.originalVolume(short, policy)
	}
	create(m.Env, moved)
	rejected(m.Env, "CSIDriverNotOwned", "is not owned by this PavProvisioner")
	m.deleteDriver()
	accepted(m.Env, 1)
	driver := fixture.Get(m.Env, func(ctx context.Context) (*storagev1.CSIDriver, error) {
		return m.Client.StorageV1().CSIDrivers().Get(ctx, m.Namespace, metav1.GetOptions{})
	})
	if len(driver.OwnerReferences) != 1 || *driver.Spec.PodInfoOnMount {
		t.Errorf("CSIDriver %+v, want that of the PavProvisioner", driver)
	}
	return m
}

// Volumes of the original are static volumes at first, which nothing deletes. Once they are adopted, their
// reclaim policy decides. docs/migrating-from-pav.md has the steps.
func TestMigration(t *testing.T) {
	t.Parallel()
	const policyDelete, policyRetain = corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain
	m := beginMigration(t, map[string]corev1.PersistentVolumeReclaimPolicy{
		"static-delete": policyDelete, "static-retain": policyRetain, "delete": policyDelete, "retain": policyRetain, "deleting": policyDelete,
	})
	all := []string{"static-delete", "static-retain", "delete", "retain", "deleting"}
	for _, short := range all {
		m.use(short)
	}
	if n := m.pavVolumes(); n != 0 {
		t.Errorf("%d PavVolumes exist before an adoption", n)
	}
	m.DeletePVC("deleting") // waits, as it did for the original
	use(m.Env, "retain", nodeName)
	running := request(m.Env, m.volume("retain").Spec.CSI.VolumeHandle, nodeName)
	attempt := staged(m.Env, running).Status.StagedAttempt
	for _, short := range []string{"delete", "retain", "deleting"} {
		m.adopt(short)
	}
	if s := staged(m.Env, running); s.Status.StagedAttempt != attempt {
		t.Errorf("attempt %d staged the volume of a running pod, want %d, from before the adoption", s.Status.StagedAttempt, attempt)
	}
	unuse(m.Env, "retain", nodeName)
	unstaged(m.Env, running)
	patchSpec(m.Env, `{"provisioningModes":["Dynamic"]}`) // no adopted volume needs Static
	accepted(m.Env, 2)
	m.use("delete")
	for _, short := range all {
		pv := m.volume(short)
		m.leave(short)
		if short == "deleting" {
			gone(m.Env, m.Client.CoreV1().PersistentVolumes(), &corev1.PersistentVolume{}, pv.Name)
		}
	}

	kept := []*corev1.PersistentVolume{m.release("static-delete"), m.release("static-retain"), m.release("retain")}
	pv := m.volume("delete")
	m.DeletePVC("delete")
	gone(m.Env, m.Client.CoreV1().PersistentVolumes(), &corev1.PersistentVolume{}, pv.Name)
	gone(m.Env, clients.Volumes, &stowage.PavVolume{}, pv.Name)
	if of := m.ran(helperpod.Deletion); !slices.Equal(of, []string{"deleting EU", "delete EU"}) {
		t.Errorf("deletion pods of %v, want those of deleting and delete", of)
	}
	if made := m.ran(helperpod.Creation); len(made) > 0 {
		t.Errorf("creation pods of %v", made)
	}
	for _, pv := range kept {
		if now := persistentVolume(m.Env, pv.Name); now.DeletionTimestamp != nil || now.Status.Phase != corev1.VolumeReleased {
			t.Errorf("PersistentVolume of %s: phase %s, deleted %v", pv.Spec.ClaimRef.Name, now.Status.Phase, now.DeletionTimestamp)
		}
	}
	retained := kept[2].Name
	m.Do(func(ctx context.Context) error {
		return m.Client.CoreV1().PersistentVolumes().Delete(ctx, retained, metav1.DeleteOptions{})
	})
	seen(m.Env, clients.Volumes, retained, func(v *stowage.PavVolume) bool {
		c := meta.FindStatusCondition(v.Status.Conditions, stowage.ConditionProvisioned)
		return c != nil && c.Reason == string(rules.Kept)
	})
	m.Do(func(ctx context.Context) error { return clients.Volumes.Delete(ctx, retained, metav1.DeleteOptions{}) })
	gone(m.Env, clients.Volumes, &stowage.PavVolume{}, retained)
	m.stop()
}

// What cannot be adopted has an event, and stays as it is.
func TestNotAdopted(t *testing.T) {
	t.Parallel()
	m := beginMigration(t, map[string]corev1.PersistentVolumeReclaimPolicy{"c": corev1.PersistentVolumeReclaimDelete})
	patchSpec(m.Env, `{"accessibility":"SelectedNode"}`)
	accepted(m.Env, 2)
	m.annotate("c", `"true"`)
	m.WaitEvent(m.Namespace, "c", string(rules.ClassUnsuitable), "must be WaitForFirstConsumer")
	patchSpec(m.Env, `{"accessibility":null,"provisioningModes":["Static"],"volumeCreation":null,"volumeDeletion":null}`)
	accepted(m.Env, 3)
	m.WaitEvent(m.Namespace, "c", string(rules.NotAccepted), "does not have Dynamic")
	if n := m.pavVolumes(); n != 0 {
		t.Errorf("%d PavVolumes", n)
	}
	m.use("c")
	m.leave("c")
	m.release("c")
	m.stop()
}

// An adopted volume is given up again, and nothing of it is deleted.
func TestMigrationBack(t *testing.T) {
	t.Parallel()
	m := beginMigration(t, map[string]corev1.PersistentVolumeReclaimPolicy{"c": corev1.PersistentVolumeReclaimDelete, "static": corev1.PersistentVolumeReclaimDelete})
	pv := m.adopt("c")
	m.leave("c")
	m.use("c")

	m.annotate("c", `null`)
	patchPV(m.Env, pv.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	finalized(m.Env, pv.Name, false)
	m.Do(func(ctx context.Context) error { return clients.Volumes.Delete(ctx, pv.Name, metav1.DeleteOptions{}) })
	fixture.Get(m.Env, func(ctx context.Context) (*stowage.PavVolume, error) {
		return clients.Volumes.Patch(ctx, pv.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	gone(m.Env, clients.Volumes, &stowage.PavVolume{}, pv.Name)
	m.use("c") // as a static volume
	m.stop()
	m.originalDriver()
	m.PatchPVC("c", map[string]any{"metadata": map[string]any{
		"labels": map[string]any{original + "provisioner": m.Namespace}, "finalizers": []string{"kubernetes.io/pvc-protection", original + "delete-volume"},
	}})
	patchPV(m.Env, pv.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	for _, short := range []string{"c", "static"} {
		back := m.volume(short)
		if slices.Contains(back.Finalizers, rules.PVFinalizer) || back.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			t.Errorf("PersistentVolume of %s: finalizers %v, policy %s", short, back.Finalizers, back.Spec.PersistentVolumeReclaimPolicy)
		}
	}
	if pods := m.ran(helperpod.Deletion); len(pods) > 0 || m.pavVolumes() > 0 {
		t.Errorf("deletion pods of %v, %d PavVolumes", pods, m.pavVolumes())
	}
	for _, short := range []string{"c", "static"} {
		m.leave(short)
	}
	m.deleteDriver()
}
