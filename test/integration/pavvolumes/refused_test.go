// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/test/integration/fixture"
)

// byClaim has the creation pod that an annotation of the claim describes.
const byClaim = `
apiVersion: stowage.dev/v1alpha1
kind: PavProvisioner
metadata: {name: x}
spec:
  provisioningModes: [Dynamic]
  backoff: {initial: 100ms, max: 1s}
  podNamespaces: {claim: true, names: [missing]}
  volumeCreation:
    podTemplate: "{% set yaml = true %}{{ pvc.metadata.annotations.pod }}"
  volumeStaging:
    podTemplate: {spec: {containers: [{name: main, image: i}]}}
`

// deny has the API server refuse the creation pods of the Env's provisioner that have the label
// denied, once it has read the policy.
func deny(e *fixture.Env) {
	e.T.Helper()
	policies, bindings := e.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), e.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	fail := admissionv1.Fail
	fixture.Get(e, func(ctx context.Context) (*admissionv1.ValidatingAdmissionPolicy, error) {
		return policies.Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: e.Name("deny")},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionv1.MatchResources{
					ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"denied": "yes", wellknown.PavProvisionerLabel: e.Namespace}},
					ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
					}}},
				},
				Validations: []admissionv1.Validation{{Expression: "false", Message: "no such pods here"}},
			},
		}, metav1.CreateOptions{})
	})
	fixture.Get(e, func(ctx context.Context) (*admissionv1.ValidatingAdmissionPolicyBinding, error) {
		return bindings.Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: e.Name("deny")},
			Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: e.Name("deny"), ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
		}, metav1.CreateOptions{})
	})
	e.T.Cleanup(func() {
		for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{bindings.Delete, policies.Delete} {
			if err := remove(context.WithoutCancel(e.Context()), e.Name("deny"), metav1.DeleteOptions{}); err != nil {
				e.T.Error(err)
			}
		}
	})
}

// noPods has the API server refuse pods in the Env's namespace: all by a quota, those of the host's
// network by the Pod Security Standard, too.
func noPods(e *fixture.Env) {
	e.T.Helper()
	quotas := e.Client.CoreV1().ResourceQuotas(e.Namespace)
	fixture.Get(e, func(ctx context.Context) (*corev1.ResourceQuota, error) {
		return quotas.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}, metav1.CreateOptions{})
	})
	seen(e, quotas, "none", func(q *corev1.ResourceQuota) bool { return len(q.Status.Hard) > 0 })
	fixture.Get(e, func(ctx context.Context) (*corev1.Namespace, error) {
		return e.Client.CoreV1().Namespaces().Patch(ctx, e.Namespace, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`), metav1.PatchOptions{})
	})
}

// A pod that cannot be evaluated or that the API server refuses is reported on the claim, with the
// reason. Once it is corrected, the volume is made.
func TestPodRefused(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	deny(e)
	noPods(e)
	provide(e, byClaim, corev1.PersistentVolumeReclaimDelete, func(claim string, step helperpod.Step, _ int) outcome {
		if claim == "" { // the API server has not read the policy
			return exit(report.Report{Error: "was not refused"}, 1)
		}
		return exit(report.Report{Handle: new("later-" + claim), Capacity: new("1Gi")}, 0)
	})
	own := func(rest string) string {
		return `{metadata: {namespace: ` + e.Namespace + `}, spec: {` + rest + `containers: [{name: main, image: i}]}}`
	}
	type refused struct{ pod, message string }
	rows := map[string]refused{
		"no annotation":             {"", "spec.volumeCreation.podTemplate: line 1, column 50: 'pvc.metadata.annotations.pod' is undefined"},
		"no object":                 {"[]", "spec.volumeCreation.podTemplate: must be an object, or a template that yields one, and is a list"},
		"no yaml":                   {"{", "spec.volumeCreation.podTemplate: the result of the template, with yaml = true: yaml: line 1"},
		"an unknown field":          {"{spec: {containers: [{name: main, image: i, imag: i}]}}", "spec.volumeCreation.podTemplate.spec.containers[0].imag: unknown field of a PodTemplateSpec"},
		"another namespace":         {"{metadata: {namespace: kube-system}, spec: {containers: [{name: main, image: i}]}}", `spec.volumeCreation.podTemplate.metadata.namespace: Unsupported value: "kube-system"`},
		"a pod that never ends":     {"{spec: {restartPolicy: Always, containers: [{name: main, image: i}]}}", `spec.volumeCreation.podTemplate.spec.restartPolicy: Unsupported value: "Always"`},
		"an invalid pod":            {"{spec: {containers: [{name: main, image: i, ports: [{containerPort: 99999}]}]}}", "spec.containers[0].ports[0].containerPort: Invalid value: 99999"},
		"a missing namespace":       {"{metadata: {namespace: missing}, spec: {containers: [{name: main, image: i}]}}", `namespaces "missing" not found`},
		"a missing service account": {"{spec: {serviceAccountName: missing, containers: [{name: main, image: i}]}}", `serviceaccount "missing" not found`},
		"quota":                     {own(""), "exceeded quota: none"},
		"pod security":              {own("hostNetwork: true, "), "violates PodSecurity"},
		"policy":                    {"{metadata: {labels: {denied: 'yes'}}, spec: {containers: [{name: main, image: i}]}}", "no such pods here"},
	}
	all := claims(e, rows, func(c *corev1.PersistentVolumeClaim, row refused) {
		if row.pod != "" {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pod", row.pod)
		}
	})
	for name, row := range rows {
		e.WaitEvent(e.Namespace, claimName(name), string(rules.CreationFailed), row.message)
		e.PatchPVC(claimName(name), map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			"pod": "{spec: {containers: [{name: main, image: i, args: [" + claimName(name) + "]}]}}",
		}}})
	}
	completed(e, all)
}

// Claims and classes that cannot be served are refused with a reason, and nothing is written.
func TestRefused(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withPods, corev1.PersistentVolumeReclaimDelete, nil)
	class := func(name string, change func(*storagev1.StorageClass)) {
		e.CreateClass(e.Class(name).Provisioner(e.Namespace).Immediate().Change(change))
	}
	class("fstype", func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"csi.storage.k8s.io/fstype": "xfs"} })
	class("topologies", func(c *storagev1.StorageClass) {
		c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a"}}}}}
	})
	source := func(group *string, kind string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: group, Kind: kind, Name: "other"}
		}
	}
	of := func(class string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new(e.Name(class)) }
	}
	type refused struct {
		change  func(*corev1.PersistentVolumeClaim)
		reason  rules.Reason
		message string
	}
	rows := map[string]refused{
		"block":                 {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }, rules.Invalid, "volumeValidation.volumeModes allows [Filesystem]"},
		"selector":              {func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, rules.NotSupported, "spec.selector is not supported"},
		"snapshot":              {source(new("snapshot.storage.k8s.io"), "VolumeSnapshot"), rules.NotSupported, "spec.dataSource"},
		"clone":                 {source(nil, "PersistentVolumeClaim"), rules.NotSupported, "spec.dataSource"},
		"attributes":            {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("gold") }, rules.NotSupported, "spec.volumeAttributesClassName"},
		"reserved parameter":    {of("fstype"), rules.ClassUnsuitable, "parameter csi.storage.k8s.io/fstype"},
		"topologies of a class": {of("topologies"), rules.ClassUnsuitable, "allowedTopologies"},
	}
	all := claims(e, rows, func(c *corev1.PersistentVolumeClaim, row refused) { row.change(c) })
	for name, row := range rows {
		e.WaitEvent(e.Namespace, claimName(name), string(row.reason), row.message)
		if _, err := clients.Volumes.Get(e.Context(), rules.VolumeName(all[name].UID), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: error %v of the PavVolume, want that it does not exist", name, err)
		}
	}
}

// A claim is not resized before it is bound, and its volume not after that.
func TestExpansion(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withPods, corev1.PersistentVolumeReclaimDelete, func(_ string, step helperpod.Step, number int) outcome {
		if step == helperpod.Creation && number == 1 {
			return runs
		}
		return exit(report.Report{Capacity: new("1Gi")}, 0)
	})
	e.CreateClass(e.Class("larger").Provisioner(e.Namespace).Immediate().Change(func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = new(true) }))
	claim := e.CreatePVC(e.PVC("c").Class(e.Name("larger")))
	pod := running(e, claim)
	resize := func() error {
		_, err := e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).Patch(e.Context(), "c", "application/merge-patch+json", []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`), metav1.PatchOptions{})
		return err
	}
	if err := resize(); !apierrors.IsInvalid(err) {
		t.Errorf("error %v of resizing a claim that is not bound, want Invalid", err)
	}
	e.Do(func(ctx context.Context) error { return evict(ctx, e, pod) })
	volume := boundTo(e, claim)
	if err := resize(); err != nil {
		t.Fatal(err)
	}
	e.WaitEvent(e.Namespace, "c", string(rules.NoExpansion), "requests 2Gi")
	if size := persistentVolume(e, volume.Name).Spec.Capacity[corev1.ResourceStorage]; size.String() != "1Gi" {
		t.Errorf("capacity %s, want 1Gi", size.String())
	}
	removed(e, claim)
}

// While the webhook of an admission policy fails, claim and PavVolume say so.
func TestWebhookFails(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	hooks := e.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	fixture.Get(e, func(ctx context.Context) (*admissionv1.ValidatingWebhookConfiguration, error) {
		return hooks.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: e.Namespace},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "pods.stowage.test", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
				ClientConfig:   admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{wellknown.PavProvisionerLabel: e.Namespace}},
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}},
			}},
		}, metav1.CreateOptions{})
	})
	var works atomic.Bool
	provide(e, withPods, corev1.PersistentVolumeReclaimDelete, func(_ string, step helperpod.Step, _ int) outcome {
		if step == helperpod.Creation && !works.Load() { // the API server has not read the webhook
			return exit(report.Report{Error: "was not refused"}, 1)
		}
		return exit(report.Report{Handle: new("made"), Capacity: new("1Gi")}, 0)
	})
	claim := e.CreatePVC(e.PVC("c").Class(e.Name("made")))
	const message = `failed calling webhook "pods.stowage.test"`
	e.WaitEvent(e.Namespace, "c", string(rules.PodNotRunning), message)
	seen(e, clients.Volumes, rules.VolumeName(claim.UID), func(v *stowage.PavVolume) bool {
		condition := meta.FindStatusCondition(v.Status.Conditions, stowage.ConditionProvisioned)
		return condition != nil && condition.Reason == string(rules.PodNotRunning) && strings.Contains(condition.Message, message)
	})
	works.Store(true)
	e.Do(func(ctx context.Context) error { return hooks.Delete(ctx, e.Namespace, metav1.DeleteOptions{}) })
	boundTo(e, claim)
	removed(e, claim)
}
