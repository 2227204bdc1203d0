// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
)

// manifests is the directory of the scheduler's manifests.
const manifests = "../../../manifests/scheduler"

// strict rejects unknown fields.
var strict = serializer.NewCodecFactory(kubescheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(manifests, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestSampleConfigs(t *testing.T) {
	tests := map[string]struct {
		file, profile, lease string
	}{
		"second scheduler": {file: "second/config.yaml", profile: "stowage-scheduler", lease: "stowage-scheduler"},
		"only scheduler":   {file: "only/config.yaml", profile: "default-scheduler", lease: "kube-scheduler"},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := strings.ReplaceAll(read(t, test.file), "/etc/kubernetes/scheduler.conf", writeFile(t, "kubeconfig", kubeconfig))
			// Outside a cluster, --master replaces the in-cluster configuration.
			sched, opts, made, err := setup(t, file, "--master=http://127.0.0.1:1")
			if err != nil {
				t.Fatalf("Setup: %v", err)
			}
			framework := sched.Profiles[test.profile]
			if len(sched.Profiles) != 1 || framework == nil {
				t.Fatalf("there are %d profiles, want %s alone", len(sched.Profiles), test.profile)
			}
			if got := volumePluginOf(t, framework.ListPlugins()); got != configv1.PluginName {
				t.Errorf("volume plugin is %q, want %q", got, configv1.PluginName)
			}
			if diff := cmp.Diff(defaultArgs, made.plugins[0].args); diff != "" {
				t.Errorf("plugin's arguments are not the defaults (-want +got):\n%s", diff)
			}
			component := opts.ComponentConfig
			if got := component.LeaderElection.ResourceName; got != test.lease {
				t.Errorf("lease is %q, want %q", got, test.lease)
			}
			if schedulerconfig.WaitsForKubeScheduler(component) {
				t.Error("the sample waits for kube-scheduler's lease")
			}
			if client := component.ClientConnection; client.QPS != schedulerconfig.DefaultQPS || client.Burst != schedulerconfig.DefaultBurst {
				t.Errorf("client limits are %v and %v, want %d and %d", client.QPS, client.Burst, schedulerconfig.DefaultQPS, schedulerconfig.DefaultBurst)
			}
		})
	}
}

// TestSampleIsDefaultConfig: the sample of a second scheduler equals the configuration
// without a file.
func TestSampleIsDefaultConfig(t *testing.T) {
	_, opts, _, err := setup(t, read(t, "second/config.yaml"), "--master=http://127.0.0.1:1")
	if err != nil {
		t.Fatalf("Setup: %v", err)
	}
	if diff := cmp.Diff(schedulerconfig.Default(), opts.ComponentConfig,
		cmpopts.SortSlices(func(a, b kubeschedulerconfig.PluginConfig) bool { return a.Name < b.Name }),
	); diff != "" {
		t.Errorf("configuration (-without a file +sample):\n%s", diff)
	}
}

// objects decodes a file of manifests.
func objects(t *testing.T, path string) []runtime.Object {
	t.Helper()
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(read(t, path))))
	var all []runtime.Object
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		object, _, err := strict.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("decode %s: %v", path, err)
		}
		all = append(all, object)
	}
}

// TestPermissions: our role and the stock roles together grant what the plugin needs, and
// ours grants nothing else.
func TestPermissions(t *testing.T) {
	direct := objects(t, "direct-binding/role.yaml")[0].(*rbacv1.ClusterRole).Rules
	stock := stockRules(t, "system:kube-scheduler", "system:volume-scheduler")

	// What the plugin needs beyond any scheduler.
	volumes := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"persistentvolumes", "persistentvolumeclaims"}, Verbs: []string{"get", "list", "watch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses", "csinodes", "csidrivers", "csistoragecapacities"}, Verbs: []string{"get", "list", "watch"}},
	}
	directWrites := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"persistentvolumes/status", "persistentvolumeclaims/status"}, Verbs: []string{"update"}},
	}

	if ok, lacking := rbacvalidation.Covers(stock, volumes); !ok {
		t.Errorf("the stock roles lack what PVController mode needs: %v", lacking)
	}
	if ok, _ := rbacvalidation.Covers(stock, directWrites); ok {
		t.Error("the stock roles grant what Direct mode needs: our role is no longer needed")
	}
	if ok, lacking := rbacvalidation.Covers(direct, directWrites); !ok {
		t.Errorf("our role lacks what Direct mode needs: %v", lacking)
	}
	if ok, surplus := rbacvalidation.Covers(directWrites, direct); !ok {
		t.Errorf("our role grants more than Direct mode needs: %v", surplus)
	}
}

// stockRules are the rules that these roles have in a cluster by default.
func stockRules(t *testing.T, roles ...string) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, name := range roles {
		found := false
		for _, role := range bootstrappolicy.ClusterRoles() {
			if role.Name == name {
				rules, found = append(rules, role.Rules...), true
			}
		}
		if !found {
			t.Fatalf("Kubernetes has no ClusterRole %s", name)
		}
	}
	return rules
}

// TestSecondSchedulerManifests: names in different objects agree.
func TestSecondSchedulerManifests(t *testing.T) {
	deployment := objects(t, "second/deployment.yaml")[0].(*appsv1.Deployment)
	account := deployment.Spec.Template.Spec.ServiceAccountName

	roles := map[string]bool{}
	for _, object := range objects(t, "second/rbac.yaml") {
		switch object := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			roles[object.RoleRef.Name] = boundTo(object.Subjects, account)
		case *rbacv1.RoleBinding:
			roles[object.Namespace+"/"+object.RoleRef.Name] = boundTo(object.Subjects, account)
		case *rbacv1.Role:
			want := []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{componentName}, Verbs: []string{"get", "update"}}}
			if diff := cmp.Diff(want, object.Rules); diff != "" {
				t.Errorf("role %s (-want +got):\n%s", object.Name, diff)
			}
		}
	}
	want := map[string]bool{
		"system:kube-scheduler":                                 true,
		"system:volume-scheduler":                               true,
		"stowage-scheduler-direct-binding":                      true,
		"kube-system/stowage-scheduler-leader-election":         true,
		"kube-system/extension-apiserver-authentication-reader": true,
	}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Errorf("roles bound to service account %s (-want +got):\n%s", account, diff)
	}
}

func boundTo(subjects []rbacv1.Subject, account string) bool {
	want := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: metav1.NamespaceSystem}
	return len(subjects) == 1 && subjects[0] == want
}
