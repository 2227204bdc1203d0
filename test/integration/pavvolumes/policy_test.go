// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/test/integration/fixture"
)

// helperName is a name of helper pods.
const helperName = "pav-staging-00000000-0000-0000-0000-000000000000-1"

// tenant returns a client of a user who may do everything with pods in the namespace of the test.
func tenant(e *fixture.Env) kubernetes.Interface {
	e.T.Helper()
	name := e.Name("tenant")
	e.Do(func(ctx context.Context) error {
		_, err := e.Client.RbacV1().Roles(e.Namespace).Create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "pods/ephemeralcontainers", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy"}, Verbs: []string{"*"}}},
		}, metav1.CreateOptions{})
		return err
	})
	e.Do(func(ctx context.Context) error {
		_, err := e.Client.RbacV1().RoleBindings(e.Namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		}, metav1.CreateOptions{})
		return err
	})
	connection := rest.CopyConfig(e.Cluster.RESTConfig())
	connection.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		e.T.Fatal(err)
	}
	return client
}

// reserved reports whether an error is that of the policy for helper pods.
func reserved(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "are those of PavProvisioners")
}

// A tenant who may do everything with pods can neither make pods that look like helper pods, nor
// change those, nor run commands in them.
func TestHelperPodsAreReserved(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	user := tenant(e).CoreV1()
	pods := user.Pods(e.Namespace)
	pod := func(name string, change func(*metav1.ObjectMeta)) *corev1.Pod {
		p := e.Pod(name).Obj()
		if change != nil {
			change(&p.ObjectMeta)
		}
		return p
	}
	create := func(p *corev1.Pod) error {
		_, err := pods.Create(e.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	label := func(key string) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) { m.Labels = map[string]string{key: "x"} }
	}
	owner := func(kind string) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "stowage.dev/v1alpha1", Kind: kind, Name: "x", UID: "u"}}
		}
	}
	err := wait.PollUntilContextTimeout(e.Context(), 100*time.Millisecond, e.Timeout, true, func(context.Context) (bool, error) { //nolint:forbidigo // no event says that the API server has read the policy
		return reserved(create(pod("a", label(wellknown.PavOwnerLabel)))), nil
	})
	if err != nil {
		t.Fatalf("the policy is not in force: %v", err)
	}
	for name, p := range map[string]*corev1.Pod{
		"its step as a label":     pod("a", label(wellknown.PavStepLabel)),
		"another of its labels":   pod("a", label(wellknown.PavProvisionerLabel)),
		"a PavVolume as owner":    pod("a", owner("PavVolume")),
		"a PavStaging as owner":   pod("a", owner("PavStaging")),
		"its name":                pod(helperName, nil),
		"its finalizer":           pod("a", func(m *metav1.ObjectMeta) { m.Finalizers = []string{wellknown.PavPodFinalizer} }),
		"its label beside others": pod("a", func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"app": "a", wellknown.PavOwnerLabel: ""} }),
	} {
		if err := create(p); !reserved(err) {
			t.Errorf("a pod with %s was not refused: %v", name, err)
		}
	}
	for name, p := range map[string]*corev1.Pod{
		"nothing of a helper pod": pod("a", nil),
		"a generated name":        pod("", func(m *metav1.ObjectMeta) { m.Name, m.GenerateName = "", "pav-staging-" }),
		"a label of the product":  pod("a", label("stowage.dev/other")),
		"another owner":           pod("a", owner("Other")),
	} {
		if err := create(p); reserved(err) {
			t.Errorf("a pod with %s: %v", name, err)
		}
	}

	own := pod("own", nil)
	e.Do(func(ctx context.Context) error { _, err := pods.Create(ctx, own, metav1.CreateOptions{}); return err })
	patch := func(name, text string) error {
		_, err := pods.Patch(e.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	if err := patch("own", `{"metadata":{"labels":{"`+wellknown.PavOwnerLabel+`":"x"}}}`); !reserved(err) {
		t.Errorf("a label of helper pods was added: %v", err)
	}
	if err := patch("own", `{"metadata":{"labels":{"app":"x"}}}`); err != nil {
		t.Errorf("another label: %v", err)
	}

	helper := pod(helperName, label(wellknown.PavOwnerLabel))
	e.Do(func(ctx context.Context) error { // an administrator, as the controller
		_, err := e.Client.CoreV1().Pods(e.Namespace).Create(ctx, helper, metav1.CreateOptions{})
		return err
	})
	for _, change := range []string{`{"metadata":{"labels":null}}`, `{"metadata":{"annotations":{"a":"b"}}}`, `{"spec":{"activeDeadlineSeconds":5}}`} {
		if err := patch(helperName, change); !reserved(err) {
			t.Errorf("a helper pod was changed by %s: %v", change, err)
		}
	}
	if _, err := pods.UpdateEphemeralContainers(e.Context(), helperName, func() *corev1.Pod {
		changed := helper.DeepCopy()
		changed.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "i"}}}
		return changed
	}(), metav1.UpdateOptions{}); !reserved(err) {
		t.Errorf("a container was added to a helper pod: %v", err)
	}
	connect := func(pod, subresource string) error {
		return user.RESTClient().Post().Namespace(e.Namespace).Resource("pods").Name(pod).SubResource(subresource).Param("command", "sh").Param("stdout", "true").Do(e.Context()).Error()
	}
	for _, subresource := range []string{"exec", "attach", "portforward", "proxy"} {
		if err := connect(helperName, subresource); !reserved(err) {
			t.Errorf("%s of a helper pod: %v", subresource, err)
		}
		if err := connect("own", subresource); reserved(err) {
			t.Errorf("%s of another pod: %v", subresource, err)
		}
	}
}
