// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pav_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/render"
	"stowage.dev/stowage/test/cluster"
)

var strict = metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}

// TestExamples: the API server accepts the examples, and keeps what was written, so that the
// templates of what it returns are valid.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(manifests + "pav/examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := cluster.Objects(text)
			if err != nil || len(objects) != 1 {
				t.Fatalf("%d objects: %v", len(objects), err)
			}
			created, err := admin.Resource(provisioners).Create(t.Context(), objects[0], strict)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []string{"volumeValidation", "volumeCreation", "volumeDeletion", "volumeStaging", "volumeUnstaging"} {
				want, _, _ := unstructured.NestedFieldNoCopy(objects[0].Object, "spec", step)
				got, _, _ := unstructured.NestedFieldNoCopy(created.Object, "spec", step)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s was changed: %s", step, diff)
				}
			}
			var provisioner stowage.PavProvisioner
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(created.Object, &provisioner); err != nil {
				t.Fatal(err)
			}
			for _, err := range render.Check(&provisioner.Spec) {
				t.Error(err)
			}
		})
	}
}

// TestRefused: the API server names the field of each mistake.
func TestRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ name, spec, want string }{
		"a name that is no label":      {"a.b", `{provisioningModes: [Dynamic], volumeStaging: "{{ a }}"}`, "<nil>"},
		"no mode":                      {"a", `{volumeStaging: "{{ a }}"}`, "spec.provisioningModes"},
		"an unknown mode":              {"a", `{provisioningModes: [Odd], volumeStaging: "{{ a }}"}`, "spec.provisioningModes[0]"},
		"no staging":                   {"a", `{provisioningModes: [Static]}`, "spec.volumeStaging"},
		"staging without a pod":        {"a", `{provisioningModes: [Static], volumeStaging: {}}`, "spec.volumeStaging.podTemplate"},
		"an unknown access mode":       {"a", `{provisioningModes: [Static], volumeStaging: "{{ a }}", volumeValidation: {accessModes: [RWO]}}`, "spec.volumeValidation.accessModes[0]"},
		"a capacity that is none":      {"a", `{provisioningModes: [Dynamic], volumeStaging: "{{ a }}", volumeCreation: {capacity: big}}`, "spec.volumeCreation.capacity"},
		"a handle that is a number":    {"a", `{provisioningModes: [Dynamic], volumeStaging: "{{ a }}", volumeCreation: {handle: 5}}`, "spec.volumeCreation.handle"},
		"a templated namespace":        {"a", `{provisioningModes: [Static], volumeStaging: "{{ a }}", podNamespaces: {names: ["{{ a }}"]}}`, "spec.podNamespaces.names[0]"},
		"capacity of static volumes":   {"a", `{provisioningModes: [Static], volumeStaging: "{{ a }}", storageCapacity: 1Gi}`, "spec"},
		"a capacity of nodes below 0":  {"a", `{provisioningModes: [Dynamic], volumeStaging: "{{ a }}", storageCapacity: -5}`, "spec.storageCapacity"},
		"a timeout that is none":       {"a", `{provisioningModes: [Static], volumeStaging: "{{ a }}", timeouts: {staging: soon}}`, "spec.timeouts.staging"},
		"backoff that begins too long": {"a", `{provisioningModes: [Static], volumeStaging: "{{ a }}", backoff: {initial: 2m, max: 1m}}`, "spec.backoff"},
		"no topology key":              {"a", `{provisioningModes: [Static], volumeStaging: "{{ a }}", accessibility: {topologyKeys: []}}`, "spec.accessibility.topologyKeys"},
		"a device outside /dev":        {"a", `{provisioningModes: [Static], volumeStaging: "{{ a }}", deviceAllowList: [/etc/passwd]}`, "spec.deviceAllowList[0]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := manifest(t, "PavProvisioner", tc.name, tc.spec)
			_, err := admin.Resource(provisioners).Create(t.Context(), object, strict)
			if diff := cmp.Diff([]string{tc.want}, causes(t, err)); diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
		})
	}
}

// TestUnknownFields: kubectl's strict validation names a field of the spec that is misspelled.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	object := manifest(t, "PavProvisioner", "unknown", `{provisioningModes: [Static], volumeStaging: "{{ a }}", volumeUnstagin: "{{ a }}"}`)
	_, err := admin.Resource(provisioners).Create(t.Context(), object, strict)
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.volumeUnstagin"`) {
		t.Error(err)
	}
}

// TestVolume: the status is a subresource, and neither the claim of a volume nor the number of its
// attempts can go back.
func TestVolume(t *testing.T) {
	t.Parallel()
	client := admin.Resource(volumes)
	object := manifest(t, "PavVolume", "pvc-1", `{provisioner: a, provisionerUID: u2, revision: r1, claimRef: {namespace: shop, name: data, uid: u1}, claim: {spec: {accessModes: [ReadWriteOnce]}}, class: {parameters: {a: b}}}`)
	object.Object["status"] = map[string]any{"phase": "Pending"}
	volume, err := client.Create(t.Context(), object, strict)
	if err != nil {
		t.Fatal(err)
	}
	if status, found := volume.Object["status"]; found {
		t.Errorf("status %v was created", status)
	}
	volume.Object["status"] = map[string]any{
		"phase": "Creating", "attempt": int64(2),
		"step": map[string]any{"name": "Creation", "attempt": int64(2), "revision": "r1", "podName": "p", "startTime": "2026-01-01T00:00:00Z"},
	}
	if volume, err = client.UpdateStatus(t.Context(), volume, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path  []string
		value any
		want  string
	}{
		"another claim":         {[]string{"spec", "claimRef", "uid"}, "other", "spec"},
		"another provisioner":   {[]string{"spec", "provisioner"}, "other", "spec"},
		"an unknown revision":   {[]string{"spec", "useRevision"}, "First", "spec.useRevision"},
		"an unknown phase":      {[]string{"status", "phase"}, "Odd", "status.phase"},
		"an attempt once more":  {[]string{"status", "attempt"}, int64(1), "status"},
		"a step without number": {[]string{"status", "step", "attempt"}, int64(0), "status,status.step.attempt"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := volume.DeepCopy()
			if err := unstructured.SetNestedField(changed.Object, tc.value, tc.path...); err != nil {
				t.Fatal(err)
			}
			var subresource []string
			if tc.path[0] == "status" {
				subresource = []string{"status"}
			}
			_, err := client.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}, subresource...)
			if got := strings.Join(causes(t, err), ","); got != tc.want {
				t.Errorf("%v: refused for %q, want %q", err, got, tc.want)
			}
		})
	}
}

func manifest(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]json.RawMessage{"spec": text}
	for key, value := range map[string]any{
		"apiVersion": stowage.SchemeGroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": name},
	} {
		if object[key], err = json.Marshal(value); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	found := &unstructured.Unstructured{}
	if err := found.UnmarshalJSON(whole); err != nil {
		t.Fatal(err)
	}
	return found
}

// causes returns the fields for which the API server refuses an object, without its note that it
// does not evaluate rules on an object whose fields are wrong.
func causes(t *testing.T, err error) []string {
	t.Helper()
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		t.Fatalf("want a refusal, and not the error %v", err)
	}
	var names []string
	for _, cause := range status.ErrStatus.Details.Causes {
		if !strings.Contains(cause.Message, "some validation rules were not checked") {
			names = append(names, cause.Field)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
