// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
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

// alike removes intended differences. Texts of ConfigMaps are compared by
// their decoded values.
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

// dig returns the value at keys, or nil.
func dig(value any, keys ...string) any {
	for _, key := range keys {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	return value
}

// TestChartIsManifests: the chart renders the same objects as the manifests.
func TestChartIsManifests(t *testing.T) {
	t.Parallel()
	for scenario, test := range map[string]struct {
		set     []string
		folders []string
	}{
		"as it comes":       {folders: []string{"overlays/default", "uninstall"}},
		"with monitoring":   {set: []string{"monitoring.enabled=true", "policies.schedulerName=true"}, folders: []string{"overlays/monitored", "uninstall"}},
		"extender, full":    {set: append(only("extender"), "extender.mode=Full"), folders: []string{"extender/full"}},
		"extender, watched": {set: append(only("extender"), "monitoring.enabled=true", "monitoring.dashboard.enabled=false"), folders: []string{"extender/full", "monitoring/extender"}},
		"extender, advice":  {set: append(only("extender"), "extender.mode=Advisory"), folders: []string{"extender/advisory"}},
		"kube-scheduler's":  {set: append(only(""), "scheduler.rightsForKubeScheduler=true"), folders: []string{"scheduler/only"}},
		"where policies are enforced": {
			set:     []string{"networkPolicy.enabled=true", "extender.enabled=true", "pav.enabled=true"},
			folders: []string{"overlays/default", "uninstall", "extender/full", "network-policies", "crd/pav", "csi", pavController},
		},
		"critical pods need a quota": {
			set: []string{"priorityClassQuota=true"}, folders: []string{"overlays/default", "uninstall", "platforms/priority-quota"},
		},
		"pod-templated provisioners": {
			set: []string{"pav.enabled=true"}, folders: []string{"overlays/default", "uninstall", "crd/pav", "csi", pavController},
		},
		"pod-templated provisioners alone, watched": {
			set:     append(only("controller"), "pav.enabled=true", "monitoring.enabled=true", "monitoring.dashboard.enabled=false"),
			folders: []string{"controller", "csi", pavController, pavHeartbeats, "monitoring/controller", "monitoring/pav"},
		},
		"startup taint": {
			set:     append(only("provisioner"), "provisioner.startupTaint.enabled=true"),
			folders: []string{"provisioner", "provisioner/startup-taint", "uninstall"},
		},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			var manifests []object
			for _, folder := range test.folders {
				for _, o := range sourceOf(t, folder) {
					if o.GetKind() != "Namespace" || o.GetName() != namespace { // Helm gets its name, and does not own it
						manifests = append(manifests, alike(t, o))
					}
				}
			}
			if slices.Contains(test.folders, pavController) {
				enablePav(t, manifests)
			}
			var made []object
			for _, o := range render(t, test.set...) {
				made = append(made, alike(t, o))
			}
			want, got := byName(t, manifests), byName(t, made)
			if diff := gocmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("objects (-manifests +chart):\n%s", diff)
			}
			for key, o := range want {
				if got[key] == nil || scenario == "startup taint" && key == namespace+"/ConfigMap stowage-provisioner" {
					continue // with the startup taint the configuration has two keys more
				}
				if diff := gocmp.Diff(o.Object, got[key].Object); diff != "" {
					t.Errorf("%s (-manifests +chart):\n%s", key, diff)
				}
			}
		})
	}
}

// What TestChartIsManifests compares the chart with besides folders.
const (
	pavController = "controller/pav-*.yaml"        // what the controller needs for PavProvisioners
	pavHeartbeats = "provisioner, heartbeats only" // and for the heartbeats of provisioners, if there are none
)

// sourceOf returns the objects of a folder, or of the two above, all in one namespace as the chart has them.
func sourceOf(t *testing.T, folder string) []object {
	t.Helper()
	moved := strings.NewReplacer(`"namespace":"kube-system"`, `"namespace":"`+namespace+`"`, "resourceNamespace: kube-system", "resourceNamespace: "+namespace)
	var objects []object
	for _, o := range inFolder(t, folder) {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		here := parse(t, moved.Replace(string(data)))[0]
		if o.GetName() == "stowage-scheduler-authentication-reader" { // of a Role in kube-system
			here.SetNamespace(o.GetNamespace())
		}
		objects = append(objects, here)
	}
	return objects
}

// inFolder returns them as they are.
func inFolder(t *testing.T, folder string) []object {
	t.Helper()
	switch folder {
	case pavController:
		var objects []object
		for _, file := range []string{"pav-volumes.yaml", "pav-policy.yaml"} {
			data, err := os.ReadFile(files + "/controller/" + file)
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, parse(t, string(data))...)
		}
		for _, o := range objects { // as kustomizations do
			o.SetLabels(map[string]string{"app.kubernetes.io/part-of": "stowage"})
			if o.GetKind() == "Namespace" {
				o.SetLabels(map[string]string{"app.kubernetes.io/part-of": "stowage", "pod-security.kubernetes.io/enforce": "privileged"})
			}
		}
		return objects
	case pavHeartbeats:
		return slices.DeleteFunc(kustomize(t, "provisioner"), func(o object) bool {
			return o.GetName() != "stowage-node-lease" && (o.GetNamespace() != "stowage-node-lease" || o.GetName() != "stowage-controller")
		})
	default:
		return kustomize(t, folder)
	}
}

// enablePav sets in the controller's configuration what docs/pav.md has an administrator set.
func enablePav(t *testing.T, objects []object) {
	t.Helper()
	for _, o := range objects {
		if name(o) == namespace+"/ConfigMap stowage-controller-config" {
			config, _ := dig(o.Object, "data", "config.yaml").(map[string]any)
			config["pavVolumes"] = map[string]any{"enabled": true, "reporterImage": "stowage.dev/stowage-pav-reporter:dev", "namespace": "stowage-pav"}
			return
		}
	}
	t.Error("the controller has no configuration")
}

// TestWithoutPav: the chart renders nothing of PavProvisioners unless they are enabled.
func TestWithoutPav(t *testing.T) {
	t.Parallel()
	for _, o := range render(t, "networkPolicy.enabled=true", "monitoring.enabled=true", "monitoring.dashboard.enabled=false", "metrics.secure=true", "openshift=true") {
		if made := strings.ToLower(text(t, []object{o})); strings.Contains(made, "stowage-csi") || strings.Contains(made, "pavvolumes") || strings.Contains(made, "stowage-pav") {
			t.Errorf("%s is about PavProvisioners", name(o))
		}
	}
}

// TestPavIsKept: with the kinds of PavProvisioners an uninstall keeps the namespace that has their revisions.
func TestPavIsKept(t *testing.T) {
	t.Parallel()
	for _, keep := range []string{"true", "false"} {
		kept := 0
		for _, o := range render(t, "pav.enabled=true", "crds.keep="+keep) {
			if o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
				continue
			}
			if kept++; o.GetKind() != "CustomResourceDefinition" && name(o) != "Namespace stowage-pav" {
				t.Errorf("%s is kept", name(o))
			}
		}
		if want := map[string]int{"true": 7}[keep]; kept != want { // LocalDiskReport, LocalDisk, LocalDiskTombstone, three of PavProvisioners, the namespace
			t.Errorf("crds.keep=%s: %d objects are kept, want %d", keep, kept, want)
		}
	}
}

// only turns everything off but one part.
func only(part string) []string {
	set := []string{"crds.enabled=false"}
	for _, p := range []string{"scheduler", "provisioner", "controller", "extender"} {
		set = append(set, p+".enabled="+map[bool]string{true: "true", false: "false"}[p == part])
	}
	return set
}
