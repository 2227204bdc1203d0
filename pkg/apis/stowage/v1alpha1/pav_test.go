// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

var (
	installedProvisioners = installed("pav/stowage.dev_pavprovisioners.yaml")
	installedVolumes      = installed("pav/stowage.dev_pavvolumes.yaml")
)

const examples = "../../../../manifests/pav/examples"

// parse reads YAML as kubectl does, whose keys may override those of a merge.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := utiljson.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	s := schemaFrom(t, installedProvisioners)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			object := parse(t, string(text))
			written := runtime.DeepCopyJSON(object)
			if errs := s.validate(t, object, nil); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			pruning.Prune(written, s.structural, true)
			if diff := cmp.Diff(parse(t, string(text)), written); diff != "" {
				t.Errorf("the schema drops what was written: %s", diff)
			}
			var typed PavProvisioner
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(written, &typed, true); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestProvisionerSchema merges each spec into one that is valid.
func TestProvisionerSchema(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		name, spec string
		want       []string
	}{
		"nothing besides the required":  {spec: `{}`},
		"a name that is no label":       {name: "a.b", spec: `{}`, want: []string{"<nil>"}},
		"a name that is too long":       {name: strings.Repeat("a", 64), spec: `{}`, want: []string{"<nil>"}},
		"the longest name":              {name: strings.Repeat("a", 63), spec: `{}`},
		"an unknown mode":               {spec: `{provisioningModes: [Odd]}`, want: []string{"spec.provisioningModes[0]"}},
		"no mode":                       {spec: `{provisioningModes: []}`, want: []string{"spec.provisioningModes"}},
		"a mode twice":                  {spec: `{provisioningModes: [Static, Static]}`, want: []string{"spec.provisioningModes[1]"}},
		"a template for the modes":      {spec: `{provisioningModes: "{{ 1 }}"}`, want: []string{"spec.provisioningModes"}},
		"each step one template":        {spec: `{volumeValidation: "{{ a }}", volumeCreation: "{{ a }}", volumeDeletion: "{{ a }}", volumeStaging: "{{ a }}", volumeUnstaging: "{{ a }}"}`},
		"each pod template one":         {spec: `{volumeValidation: {podTemplate: "{{ a }}"}, volumeCreation: {podTemplate: "{{ a }}"}, volumeDeletion: {podTemplate: "{{ a }}"}, volumeStaging: {podTemplate: "{{ a }}"}, volumeUnstaging: {podTemplate: "{{ a }}"}}`},
		"fields of validation":          {spec: `{volumeValidation: {volumeModes: [Block, "{{ a }}"], accessModes: [ReadWriteOncePod, "{{ a }}"], minCapacity: 1, maxCapacity: 1.5Gi}}`},
		"templates in validation":       {spec: `{volumeValidation: {volumeModes: "{{ a }}", accessModes: "{% set yaml = true %}[]", minCapacity: "{{ a }}", maxCapacity: "{# c #}5"}}`},
		"an unknown volume mode":        {spec: `{volumeValidation: {volumeModes: [Odd]}}`, want: []string{"spec.volumeValidation.volumeModes[0]"}},
		"an unknown access mode":        {spec: `{volumeValidation: {accessModes: [RWO]}}`, want: []string{"spec.volumeValidation.accessModes[0]"}},
		"a negative capacity":           {spec: `{volumeValidation: {minCapacity: -1Gi}}`, want: []string{"spec.volumeValidation.minCapacity"}},
		"a capacity that is no number":  {spec: `{volumeCreation: {capacity: big}}`, want: []string{"spec.volumeCreation.capacity"}},
		"a capacity that is a list":     {spec: `{volumeCreation: {capacity: [1]}}`, want: []string{"spec.volumeCreation.capacity"}},
		"a handle that is a number":     {spec: `{volumeCreation: {handle: 5}}`, want: []string{"spec.volumeCreation.handle"}},
		"an empty handle":               {spec: `{volumeCreation: {handle: ""}}`, want: []string{"spec.volumeCreation.handle"}},
		"staging without a pod":         {spec: `{volumeStaging: {}}`, want: []string{"spec.volumeStaging.podTemplate"}},
		"namespaces":                    {spec: `{podNamespaces: {claim: true, names: [a, b-1]}}`},
		"a templated namespace":         {spec: `{podNamespaces: {names: ["{{ a }}"]}}`, want: []string{"spec.podNamespaces.names[0]"}},
		"accessible from anywhere":      {spec: `{accessibility: Anywhere}`},
		"accessible by topology":        {spec: `{accessibility: {topologyKeys: [topology.kubernetes.io/zone]}}`},
		"accessible by no key":          {spec: `{accessibility: {topologyKeys: []}}`, want: []string{"spec.accessibility.topologyKeys"}},
		"accessible by another field":   {spec: `{accessibility: {keys: [a]}}`, want: []string{"spec.accessibility.topologyKeys"}},
		"capacity of nodes":             {spec: `{storageCapacity: "{{ node.status.allocatable.x }}"}`},
		"capacity of nodes in bytes":    {spec: `{storageCapacity: 0}`},
		"a negative capacity of nodes":  {spec: `{storageCapacity: -1}`, want: []string{"spec.storageCapacity"}},
		"capacity that is no quantity":  {spec: `{storageCapacity: much}`, want: []string{"spec.storageCapacity"}},
		"capacity of static volumes":    {spec: `{provisioningModes: [Static], storageCapacity: 1Gi}`, want: []string{"spec"}},
		"an unknown policy of fsGroup":  {spec: `{fsGroupPolicy: Some}`, want: []string{"spec.fsGroupPolicy"}},
		"mount options":                 {spec: `{mountOptions: [noatime, ""]}`, want: []string{"spec.mountOptions[1]"}},
		"devices":                       {spec: `{deviceAllowList: [/dev/mapper/crypt-*, /dev/loop0]}`},
		"a device outside /dev":         {spec: `{deviceAllowList: [/etc/passwd]}`, want: []string{"spec.deviceAllowList[0]"}},
		"a timeout":                     {spec: `{timeouts: {creation: 1h30m}}`},
		"a timeout of 0":                {spec: `{timeouts: {creation: 0s}}`, want: []string{"spec.timeouts.creation"}},
		"a negative timeout":            {spec: `{timeouts: {staging: -5s}}`, want: []string{"spec.timeouts.staging"}},
		"a timeout of another language": {spec: `{timeouts: {staging: PT5M}}`, want: []string{"spec.timeouts.staging"}},
		"a timeout in days":             {spec: `{timeouts: {staging: 1d}}`, want: []string{"spec.timeouts.staging"}},
		"a timeout of millennia":        {spec: `{timeouts: {staging: 999999999999h}}`, want: []string{"spec.timeouts.staging"}},
		"a timeout that is a number":    {spec: `{timeouts: {staging: 5}}`, want: []string{"spec.timeouts.staging"}},
		"backoff":                       {spec: `{backoff: {initial: 1s, max: 1s}}`},
		"backoff that begins too long":  {spec: `{backoff: {max: 1s}}`, want: []string{"spec.backoff"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := parse(t, `{provisioningModes: [Dynamic], volumeStaging: {podTemplate: {spec: {}}}}`)
			maps.Copy(spec, parse(t, tc.spec))
			object := map[string]any{
				"apiVersion": "stowage.dev/v1alpha1", "kind": "PavProvisioner", "spec": spec,
				"metadata": map[string]any{"name": tc.name},
			}
			if tc.name == "" {
				object["metadata"] = map[string]any{"name": "a"}
			}
			s := schemaFrom(t, installedProvisioners)
			if diff := cmp.Diff(tc.want, fields(s.validate(t, object, nil))); diff != "" {
				t.Fatal(diff)
			}
			if len(tc.want) > 0 {
				return
			}
			// What the schema accepts, clients can read.
			var typed, again PavProvisioner
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &typed); err != nil {
				t.Fatal(err)
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(unstructured(t, &typed), &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(typed, again); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReadsWhatTheSchemaCannotRefuse: fields that may be a string or an object have no type, so
// the schema lets numbers and lists through. They must not keep a client from reading a list.
func TestReadsWhatTheSchemaCannotRefuse(t *testing.T) {
	t.Parallel()
	for _, value := range []any{int64(5), true, []any{"a"}, "Odd", map[string]any{"other": "a"}} {
		object := parse(t, `{apiVersion: stowage.dev/v1alpha1, kind: PavProvisioner, metadata: {name: a}, spec: {provisioningModes: [Dynamic]}}`)
		spec, _ := object["spec"].(map[string]any)
		spec["volumeStaging"], spec["volumeCreation"], spec["accessibility"] = value, value, value
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var typed PavProvisioner
		if err := json.Unmarshal(text, &typed); err != nil {
			t.Errorf("%v: %v", value, err)
		}
		if got := typed.Spec.Accessibility.Mode; got == AccessibleAnywhere || got == AccessibleSelectedNode || got == "" {
			t.Errorf("%v: accessibility %q", value, got)
		}
	}
}

func TestDefaultsOfProvisioner(t *testing.T) {
	t.Parallel()
	object := parse(t, `{apiVersion: stowage.dev/v1alpha1, kind: PavProvisioner, metadata: {name: a}, spec: {provisioningModes: [Static], volumeStaging: "{{ a }}", timeouts: {staging: 1m}}}`)
	if errs := schemaFrom(t, installedProvisioners).validate(t, object, nil); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	var typed PavProvisioner
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &typed); err != nil {
		t.Fatal(err)
	}
	of := func(d time.Duration) PositiveDuration { return PositiveDuration{metav1.Duration{Duration: d}} }
	want := PavProvisionerSpec{
		ProvisioningModes: []ProvisioningMode{ProvisioningStatic},
		VolumeStaging:     VolumeStaging{Raw: []byte(`"{{ a }}"`)},
		FSGroupPolicy:     "None",
		Timeouts: StepTimeouts{
			Validation: of(5 * time.Minute), Creation: of(10 * time.Minute), Deletion: of(10 * time.Minute),
			Staging: of(time.Minute), Unstaging: of(5 * time.Minute),
		},
		Backoff: Backoff{Initial: of(5 * time.Second), Max: of(5 * time.Minute)},
	}
	if diff := cmp.Diff(want, typed.Spec); diff != "" {
		t.Error(diff)
	}
}

// pavVolume is a volume in which every field has a value.
func pavVolume() *PavVolume {
	then := metav1.Unix(1760000000, 0)
	handle, capacity := "bucket-1", "1Gi"
	size := resource.MustParse(capacity)
	return &PavVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "stowage.dev/v1alpha1", Kind: "PavVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-uid"},
		Spec: PavVolumeSpec{
			Provisioner: "hello-world", ProvisionerUID: "uid", Revision: "hello-world-1", UseRevision: UseRevisionLatest,
			ClaimRef: ClaimReference{Namespace: "shop", Name: "data", UID: "uid"},
			Claim:    runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"data"},"spec":{"odd":[1]}}`)},
			Class:    runtime.RawExtension{Raw: []byte(`{"parameters":{"a":"b"}}`)},
			NodeName: "node1",
		},
		Status: PavVolumeStatus{
			ObservedGeneration: 1, Phase: PavVolumeCreating, Attempt: 2,
			Step: &PavVolumeStep{
				Name: PavStepCreation, Attempt: 2, Revision: "hello-world-1",
				PodNamespace: "stowage-pav", PodName: "pod", PodUID: "uid", StartTime: then,
				Result: &PavStepResult{Succeeded: true, Handle: &handle, Capacity: &capacity, Reschedule: true, Message: "no space"},
			},
			Handle: handle, Capacity: &size, VolumeUID: "uid", Failures: 1, RetryTime: &then,
			LastError:  &PavVolumeError{Step: PavStepValidation, Attempt: 1, Time: then, Reason: "PodFailed", Message: "no space"},
			Conditions: []metav1.Condition{{Type: ConditionProvisioned, Status: metav1.ConditionFalse, Reason: "Creating", LastTransitionTime: then, ObservedGeneration: 1, Message: "waits"}},
		},
	}
}

func TestVolumeSchemaKnowsEveryField(t *testing.T) {
	t.Parallel()
	volume := pavVolume()
	s := schemaFrom(t, installedVolumes)
	object := unstructured(t, volume)
	if errs := s.validate(t, object, nil); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	pruning.Prune(object, s.structural, true)
	if diff := cmp.Diff(unstructured(t, volume), object); diff != "" {
		t.Errorf("the schema does not know: %s", diff)
	}
	var phases []PavVolumePhase
	status := s.structural.Properties["status"]
	for _, value := range status.Properties["phase"].ValueValidation.Enum {
		phase, _ := value.Object.(string)
		phases = append(phases, PavVolumePhase(phase))
	}
	if diff := cmp.Diff(PavVolumePhases(), phases); diff != "" {
		t.Error(diff)
	}
}

func TestVolumeSchema(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*PavVolume)
		want   []string
	}{
		"nothing":                      {func(*PavVolume) {}, nil},
		"without status":               {func(v *PavVolume) { v.Status = PavVolumeStatus{} }, nil},
		"no provisioner":               {func(v *PavVolume) { v.Spec.Provisioner = "" }, []string{"spec", "spec.provisioner"}},
		"another provisioner":          {func(v *PavVolume) { v.Spec.Provisioner = "other" }, []string{"spec"}},
		"a provisioner made again":     {func(v *PavVolume) { v.Spec.ProvisionerUID = "other" }, []string{"spec"}},
		"another claim":                {func(v *PavVolume) { v.Spec.ClaimRef.UID = "other" }, []string{"spec"}},
		"a later attempt":              {func(v *PavVolume) { v.Spec.Revision, v.Spec.NodeName, v.Spec.Claim.Raw = "r2", "node2", []byte(`{}`) }, nil},
		"another revision to use":      {func(v *PavVolume) { v.Spec.UseRevision = "First" }, []string{"spec.useRevision"}},
		"an unknown phase":             {func(v *PavVolume) { v.Status.Phase = "Odd" }, []string{"status.phase"}},
		"an unknown step":              {func(v *PavVolume) { v.Status.Step.Name = "Odd" }, []string{"status.step.name"}},
		"a step of an earlier attempt": {func(v *PavVolume) { v.Status.Step.Attempt = 1 }, []string{"status"}},
		"attempts that are lost":       {func(v *PavVolume) { v.Status.Attempt, v.Status.Step = 1, nil }, []string{"status"}},
		"a handle that is too long": {
			func(v *PavVolume) { v.Status.Handle = strings.Repeat("a", 1025) }, []string{"status.handle"},
		},
		"a condition twice": {
			func(v *PavVolume) { v.Status.Conditions = slices.Repeat(v.Status.Conditions, 2) }, []string{"status.conditions[1]"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volume := pavVolume()
			tc.change(volume)
			got := fields(schemaFrom(t, installedVolumes).validate(t, unstructured(t, volume), unstructured(t, pavVolume())))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
