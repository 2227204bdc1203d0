// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What chart and manifests say differently on purpose, and what each does it for.
var (
	// Helm's own.
	helmLabels = []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance"}
	// Kustomize restarts pods for a new configuration by a new name, Helm by an
	// annotation.
	hashed         = regexp.MustCompile(`^(stowage-[a-z]+-config)-[0-9a-z]{10}$`)
	helmAnnotation = []string{"checksum/config", "helm.sh/resource-policy", "helm.sh/hook", "helm.sh/hook-weight", "helm.sh/hook-delete-policy", "helm.sh/hook-output-log-policy"}
)

// alike takes away what is different on purpose. Texts of ConfigMaps are compared by
// what they say.
func alike(t *testing.T, o object) object {
	t.Helper()
	o = o.DeepCopy()
	o.SetName(plain(o.GetName()))
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	maps.DeleteFunc(labels, func(key, _ string) bool { return slices.Contains(helmLabels, key) })
	maps.DeleteFunc(annotations, func(key, _ string) bool { return slices.Contains(helmAnnotation, key) })
	o.SetLabels(labels)
	if o.SetAnnotations(annotations); len(annotations) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
	if o.GetKind() == "ConfigMap" {
		data, _ := o.Object["data"].(map[string]any)
		for key, text := range data {
			var value any
			if err := yaml.Unmarshal([]byte(text.(string)), &value); err != nil {
				t.Fatalf("%s: %s: %v", name(o), key, err)
			}
			data[key] = value
		}
	}
	if template, ok := dig(o.Object, "spec", "template").(map[string]any); ok {
		alikePod(template)
	}
	return o
}

// alikePod does the same for the pods of a workload.
func alikePod(template map[string]any) {
	if metadata, ok := template["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			maps.DeleteFunc(annotations, func(key string, _ any) bool { return slices.Contains(helmAnnotation, key) })
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
	}
	volumes, _ := dig(template, "spec", "volumes").([]any)
	for _, volume := range volumes {
		if configMap, ok := dig(volume, "configMap").(map[string]any); ok {
			configMap["name"] = plain(configMap["name"].(string))
		}
	}
	containers, _ := dig(template, "spec", "containers").([]any)
	for _, container := range containers {
		delete(container.(map[string]any), "imagePullPolicy") // which Kubernetes defaults
	}
}

func plain(name string) string { return hashed.ReplaceAllString(name, "$1") }

// dig follows keys; nil if there is nothing.
func dig(value any, keys ...string) any {
	for _, key := range keys {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	return value
}

// TestChartIsManifests: object by object the chart makes what the manifests are.
func TestChartIsManifests(t *testing.T) {
	t.Parallel()
	for story, test := range map[string]struct {
		set     []string
		folders []string
	}{
		"as it comes":       {folders: []string{"overlays/default", "uninstall"}},
		"with monitoring":   {set: []string{"monitoring.enabled=true", "policies.schedulerName=true"}, folders: []string{"overlays/monitored", "uninstall"}},
		"extender, full":    {set: append(only("extender"), "extender.mode=Full"), folders: []string{"extender/full"}},
		"extender, watched": {set: append(only("extender"), "monitoring.enabled=true", "monitoring.dashboard=false"), folders: []string{"extender/full", "monitoring/extender"}},
		"extender, advice":  {set: append(only("extender"), "extender.mode=Advisory"), folders: []string{"extender/advisory"}},
		"kube-scheduler's":  {set: append(only(""), "scheduler.rightsForKubeScheduler=true"), folders: []string{"scheduler/only"}},
		"startup taint": {
			set:     append(only("provisioner"), "provisioner.startupTaint.enabled=true"),
			folders: []string{"provisioner", "provisioner/startup-taint", "uninstall"},
		},
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			var manifests []object
			for _, folder := range test.folders {
				for _, o := range kustomize(t, folder) {
					if o.GetKind() != "Namespace" { // Helm is told of it, and does not make it its own
						manifests = append(manifests, alike(t, o))
					}
				}
			}
			var made []object
			for _, o := range render(t, test.set...) {
				made = append(made, alike(t, o))
			}
			want, got := byName(t, manifests), byName(t, made)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("objects (-manifests +chart):\n%s", diff)
			}
			for key, o := range want {
				if got[key] == nil || story == "startup taint" && key == namespace+"/ConfigMap stowage-provisioner" {
					continue // with the startup taint the configuration has two keys more
				}
				if diff := cmp.Diff(o.Object, got[key].Object); diff != "" {
					t.Errorf("%s (-manifests +chart):\n%s", key, diff)
				}
			}
		})
	}
}

// only turns everything off but one part.
func only(part string) []string {
	set := []string{"crds.install=false"}
	for _, p := range []string{"scheduler", "provisioner", "controller", "extender"} {
		set = append(set, p+".enabled="+map[bool]string{true: "true", false: "false"}[p == part])
	}
	return set
}

// TestHook: what runs before an uninstall is what the manifests have for it, in the
// order rights, then Job. Helm prints the Job's log, which it deletes: whose data is on
// which disk.
func TestHook(t *testing.T) {
	t.Parallel()
	for _, o := range render(t) {
		hook, weight := o.GetAnnotations()["helm.sh/hook"], o.GetAnnotations()["helm.sh/hook-weight"]
		ours := o.GetName() == "stowage-release"
		want := map[bool]string{true: "pre-delete"}[ours]
		if hook != want {
			t.Errorf("%s is hook %q, want %q", name(o), hook, want)
		}
		if ours && (weight == "1") != (o.GetKind() == "Job") {
			t.Errorf("%s has weight %q", name(o), weight)
		}
		if printed := o.GetAnnotations()["helm.sh/hook-output-log-policy"]; ours && o.GetKind() == "Job" && printed != "hook-succeeded,hook-failed" {
			t.Errorf("%s: Helm prints its log when %q", name(o), printed)
		}
	}
}

// TestKubeletFolder: kubelet's folder is mounted at its own path, and the agent looks there.
// Where it is the usual one, nothing is said of it.
func TestKubeletFolder(t *testing.T) {
	t.Parallel()
	for folder, flag := range map[string]bool{"/var/lib/kubelet": false, "/var/lib/k0s/kubelet": true} {
		for _, o := range render(t, "provisioner.kubeletFolder="+folder, `provisioner.extraArgs=["--recheck-period=1s"]`) {
			if o.GetKind() != "DaemonSet" {
				continue
			}
			pod := as[appsv1.DaemonSet](t, o).Spec.Template.Spec
			var from, to []string
			for _, v := range pod.Volumes {
				if v.Name == "kubelet" {
					from = append(from, v.HostPath.Path)
				}
			}
			for _, m := range pod.Containers[0].VolumeMounts {
				if m.Name == "kubelet" {
					to = append(to, m.MountPath)
				}
			}
			if want := []string{folder}; !slices.Equal(from, want) || !slices.Equal(to, want) {
				t.Errorf("%s: %q of the node is mounted at %q", folder, from, to)
			}
			if args := pod.Containers[0].Args; slices.Contains(args, "--kubelet-dir="+folder) != flag {
				t.Errorf("%s: arguments %q", folder, args)
			}
		}
	}
}

// TestExtenderRollout: replicas of which all are ready are exchanged one by one; of those of
// which the leader alone is, all at once, since a rollout would wait for ever for another.
func TestExtenderRollout(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"full": "100%", "advisory": ""} {
		for _, o := range kustomize(t, "extender/"+mode) {
			if o.GetKind() != "Deployment" {
				continue
			}
			unavailable := ""
			if update := as[appsv1.Deployment](t, o).Spec.Strategy.RollingUpdate; update != nil {
				unavailable = update.MaxUnavailable.String()
			}
			if unavailable != want {
				t.Errorf("%s: maxUnavailable is %q, want %q", mode, unavailable, want)
			}
		}
	}
}

// TestNamespace: elsewhere the agents would not be known to their policies.
func TestNamespace(t *testing.T) {
	t.Parallel()
	_, err := command(t, tools.helm, "template", release, chart, "--namespace", "storage")
	if err == nil || !strings.Contains(err.Error(), "namespace: must be stowage-system") {
		t.Errorf("installed into another namespace: %v", err)
	}
}
