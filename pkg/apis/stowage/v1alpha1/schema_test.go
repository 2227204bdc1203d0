// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// schemaOf validates objects as the API server does, by the schema that users install.
type schemaOf struct {
	definition *apiextensions.CustomResourceDefinition
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

var installedReports = installed("stowage.dev_localdiskreports.yaml")

// installed returns a function that reads a schema of manifests/crd once.
func installed(file string) func() (*schemaOf, error) {
	return sync.OnceValues(func() (*schemaOf, error) { return readSchema("../../../../manifests/crd/" + file) })
}

func readSchema(path string) (*schemaOf, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	external := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, external); err != nil {
		return nil, err
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(external)
	s := &schemaOf{definition: &apiextensions.CustomResourceDefinition{}}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(external, s.definition, nil); err != nil {
		return nil, err
	}
	found, err := apiextensions.GetSchemaForVersion(s.definition, SchemeGroupVersion.Version)
	if err != nil {
		return nil, err
	}
	if s.structural, err = schema.NewStructural(found.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	s.rules = cel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	s.validator, _, err = validation.NewSchemaValidator(found.OpenAPIV3Schema)
	return s, err
}

func installedSchema(t testing.TB) *schemaOf { return schemaFrom(t, installedReports) }

func schemaFrom(t testing.TB, read func() (*schemaOf, error)) *schemaOf {
	t.Helper()
	s, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// problems are the invalid fields of a report, or of its change from an old one; the report as a
// whole is "<nil>".
func (s *schemaOf) problems(t *testing.T, report, old *LocalDiskReport) []string {
	t.Helper()
	var before any
	if old != nil {
		before = unstructured(t, old)
	}
	return fields(s.validate(t, unstructured(t, report), before))
}

// validate returns the errors of an object, or of its change from an old one, which may be nil.
func (s *schemaOf) validate(t *testing.T, object map[string]any, old any) field.ErrorList {
	t.Helper()
	defaulting.Default(object, s.structural)
	errs := validation.ValidateCustomResource(nil, object, s.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	broken, _ := s.rules.Validate(t.Context(), nil, s.structural, object, old, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

func fields(errs field.ErrorList) []string {
	var names []string
	for _, err := range errs {
		names = append(names, err.Field)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func unstructured(t *testing.T, typed any) map[string]any {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func TestSchemaIsAccepted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		read func() (*schemaOf, error)
		want []string
	}{
		"LocalDiskReport":    {installedReports, []string{"localdiskreports.stowage.dev", "Cluster", "LocalDiskReport", "LocalDiskReportList", "ldr"}},
		"LocalDisk":          {installedDisks, []string{"localdisks.stowage.dev", "Cluster", "LocalDisk", "LocalDiskList", "ld"}},
		"LocalDiskTombstone": {installedTombstones, []string{"localdisktombstones.stowage.dev", "Cluster", "LocalDiskTombstone", "LocalDiskTombstoneList", "ldt"}},
		"PavProvisioner":     {installedProvisioners, []string{"pavprovisioners.stowage.dev", "Cluster", "PavProvisioner", "PavProvisionerList", "pav"}},
		"PavVolume":          {installedVolumes, []string{"pavvolumes.stowage.dev", "Cluster", "PavVolume", "PavVolumeList", "pavvol"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			definition := schemaFrom(t, tc.read).definition.DeepCopy()
			definition.Status.StoredVersions = []string{SchemeGroupVersion.Version}
			if errs := apiextensionsvalidation.ValidateCustomResourceDefinition(t.Context(), definition); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			names := definition.Spec.Names
			got := []string{definition.Name, string(definition.Spec.Scope), names.Kind, names.ListKind, names.ShortNames[0]}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if hasStatus := name != "LocalDiskTombstone"; hasStatus != (definition.Spec.Subresources != nil && definition.Spec.Subresources.Status != nil) {
				t.Errorf("want the status as a subresource: %t", hasStatus)
			}
		})
	}
}

// TestSchemaKnowsEveryField: the API server drops no field of the Go types.
func TestSchemaKnowsEveryField(t *testing.T) {
	t.Parallel()
	s := installedSchema(t)
	report := example()
	if empty := unset(report); len(empty) > 0 {
		t.Fatalf("the example leaves out %v", empty)
	}
	if problems := s.problems(t, report, nil); len(problems) > 0 {
		t.Errorf("the example is refused for %v", problems)
	}
	object := unstructured(t, report)
	pruning.Prune(object, s.structural, true)
	if diff := cmp.Diff(unstructured(t, report), object); diff != "" {
		t.Errorf("the schema does not know: %s", diff)
	}
}

func TestSchemaHasEveryState(t *testing.T) {
	t.Parallel()
	s := installedSchema(t)
	status := s.structural.Properties["status"]
	entries := status.Properties["entries"]
	var states []EntryState
	for _, value := range entries.Items.Properties["state"].ValueValidation.Enum {
		state, _ := value.Object.(string)
		states = append(states, EntryState(state))
	}
	if diff := cmp.Diff(EntryStates(), states); diff != "" {
		t.Error(diff)
	}
}

func TestWhatTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*LocalDiskReport)
		want   []string
	}{
		"nothing, as it is": {func(*LocalDiskReport) {}, nil},
		"nothing, without status": {
			func(r *LocalDiskReport) { r.Status = LocalDiskReportStatus{} }, nil,
		},
		"no node": {
			func(r *LocalDiskReport) { r.Spec.NodeName, r.Name = "", "node1.page-2"; r.Spec.Page = 2 }, []string{"spec.nodeName"},
		},
		"page 0": {func(r *LocalDiskReport) { r.Spec.Page, r.Name = 0, "node1.page-0" }, []string{"<nil>", "spec.page"}},
		"a page too many": {
			func(r *LocalDiskReport) { r.Spec.Page, r.Name = MaxPages+1, "node1.page-17" }, []string{"spec.page"},
		},
		"a first page with another node's name": {func(r *LocalDiskReport) { r.Name = "node2" }, []string{"<nil>"}},
		"a second page with a node's name":      {func(r *LocalDiskReport) { r.Spec.Page = 2 }, []string{"<nil>"}},
		"nothing of a second page": {
			func(r *LocalDiskReport) { r.Spec.Page, r.Name = 2, PageName("node1", 2) }, nil,
		},
		"nothing of a last page with a long name": {
			func(r *LocalDiskReport) {
				r.Spec.NodeName, r.Spec.Page = strings.Repeat("a", 253), MaxPages
				r.Name = PageName(r.Spec.NodeName, MaxPages)
			}, nil,
		},
		"a page with another page's name": {
			func(r *LocalDiskReport) { r.Spec.Page, r.Name = 2, PageName("node1", 12) }, []string{"<nil>"},
		},
		"an unknown state": {
			func(r *LocalDiskReport) { r.Status.Entries[0].State = "Odd" }, []string{"status.entries[0].state"},
		},
		"a tombstone that is clean": {
			func(r *LocalDiskReport) { r.Status.Tombstones[0].State = "Clean" }, []string{"status.tombstones[0].state"},
		},
		"a negative size": {func(r *LocalDiskReport) { r.Status.Entries[0].Bytes = -1 }, []string{"status.entries[0].bytes"}},
		"too many entries": {
			func(r *LocalDiskReport) {
				r.Status.Entries = slices.Repeat([]Entry{{Class: "a", Name: "b", State: EntrySkipped}}, MaxEntries+1)
			}, []string{"status.entries"},
		},
		"a class twice": {
			func(r *LocalDiskReport) { r.Status.Classes = append(r.Status.Classes, r.Status.Classes[0]) },
			[]string{"status.classes[1]"},
		},
		"a condition that is neither true nor false": {
			func(r *LocalDiskReport) { r.Status.Conditions[0].Status = "Perhaps" }, []string{"status.conditions[0].status"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := example()
			tc.change(report)
			if diff := cmp.Diff(tc.want, installedSchema(t).problems(t, report, nil)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReportKeepsItsNode(t *testing.T) {
	t.Parallel()
	second, third := example(), example()
	second.Name, second.Spec.Page = "a.page-2", 2
	third.Name, third.Spec = "a.page-2", LocalDiskReportSpec{NodeName: "b", Page: 2}
	s := installedSchema(t)
	if diff := cmp.Diff([]string{"spec"}, s.problems(t, third, second)); diff != "" {
		t.Errorf("a page changes its node: %s", diff)
	}
	if problems := s.problems(t, second, second); len(problems) > 0 {
		t.Errorf("a page that stays is refused for %v", problems)
	}
}
