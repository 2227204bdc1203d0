// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/render"
)

// object reads YAML in the shape of JSON.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var found map[string]any
	if err := utiljson.Unmarshal(data, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func specOf(t *testing.T, text string) *v1alpha1.PavProvisionerSpec {
	t.Helper()
	spec := &v1alpha1.PavProvisionerSpec{}
	if err := yaml.Unmarshal([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// evaluations are the functions of the package by the field that they evaluate.
var evaluations = map[string]func(render.Request) (any, error){
	"volumeValidation": func(r render.Request) (any, error) { return render.Validation(r) },
	"volumeCreation":   func(r render.Request) (any, error) { return render.Creation(r) },
	"volumeDeletion":   func(r render.Request) (any, error) { return render.Deletion(r) },
	"volumeStaging":    func(r render.Request) (any, error) { return render.Staging(r) },
	"volumeUnstaging":  func(r render.Request) (any, error) { return render.Unstaging(r) },
}

func claims(namespace, name string) (map[string]any, error) {
	if name == "missing" {
		return nil, errors.New(`persistentvolumeclaims "missing" not found`)
	}
	return map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}, "size": int64(7)}, nil
}

const variables = `{num: 5, s: a b, none: null, list: [1, x], pvc: {metadata: {namespace: shop, name: data, annotations: {"e/x": y}}}}`

func TestEvaluate(t *testing.T) {
	t.Parallel()
	gi := resource.MustParse("1Gi")
	one := resource.MustParse("1")
	allModes := []v1alpha1.AccessMode{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"}
	pod := func(change func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
		p := &corev1.PodTemplateSpec{}
		change(p)
		return p
	}
	tests := map[string]struct {
		step, spec string
		want       any
	}{
		"validation that is absent has defaults": {
			"volumeValidation", `{}`,
			&v1alpha1.VolumeValidation{VolumeModes: []v1alpha1.VolumeMode{"Filesystem"}, AccessModes: allModes},
		},
		"all fields of validation": {
			"volumeValidation", `{volumeValidation: {volumeModes: [Block], accessModes: [ReadWriteOncePod], minCapacity: 1, maxCapacity: 1Gi, podTemplate: {}}}`,
			&v1alpha1.VolumeValidation{
				VolumeModes: []v1alpha1.VolumeMode{"Block"}, AccessModes: []v1alpha1.AccessMode{"ReadWriteOncePod"},
				MinCapacity: &one, MaxCapacity: &gi, PodTemplate: &corev1.PodTemplateSpec{},
			},
		},
		"a list that a template yields": {
			"volumeValidation", `{volumeValidation: {volumeModes: "{% set yaml = true %}[Filesystem, Block]", accessModes: ["{{ 'ReadWrite' ~ 'Once' }}"]}}`,
			&v1alpha1.VolumeValidation{VolumeModes: []v1alpha1.VolumeMode{"Filesystem", "Block"}, AccessModes: []v1alpha1.AccessMode{"ReadWriteOnce"}},
		},
		"numbers and texts": {
			"volumeCreation", `{volumeCreation: {handle: "{{ num }}-{{ s }}", capacity: "{{ num * 0 + 1 }}"}}`,
			&v1alpha1.VolumeCreation{Handle: "5-a b", Capacity: &one},
		},
		"an integer of YAML": {
			"volumeCreation", `{volumeCreation: {capacity: "{% set yaml = true %}{{ num - 4 }}"}}`,
			&v1alpha1.VolumeCreation{Capacity: &one},
		},
		"a whole step that is one template": {
			"volumeCreation", `{volumeCreation: "{% set yaml = true %}{handle: {{ s | tojson }}, capacity: 1Gi}"}`,
			&v1alpha1.VolumeCreation{Handle: "a b", Capacity: &gi},
		},
		"the value of YAML is not evaluated again": {
			"volumeCreation", `{volumeCreation: {handle: "{% set yaml = true %}'{{ '{{ num }}' }}'", capacity: 1Gi}}`,
			&v1alpha1.VolumeCreation{Handle: "{{ num }}", Capacity: &gi},
		},
		"null of YAML is no value": {
			"volumeDeletion", `{volumeDeletion: {podTemplate: "{% set yaml = true %}{{ '' }}"}}`,
			&v1alpha1.VolumeCleanup{},
		},
		"a step that is absent": {"volumeUnstaging", `{}`, &v1alpha1.VolumeCleanup{}},
		"a whole step that is null": {
			"volumeDeletion", `{volumeDeletion: "{% set yaml = true %}null"}`, &v1alpha1.VolumeCleanup{},
		},
		"strings at any depth, and no keys": {
			"volumeStaging", `{volumeStaging: {podTemplate: {metadata: {labels: {"{{ num }}": "{{ num }}"}}, spec: {containers: [{name: a, args: ["{{ s | tobash }}"]}]}}}}`,
			&v1alpha1.VolumeStaging{PodTemplate: pod(func(p *corev1.PodTemplateSpec) {
				p.Labels = map[string]string{"{{ num }}": "5"}
				p.Spec.Containers = []corev1.Container{{Name: "a", Args: []string{"'a b'"}}}
			})},
		},
		"parts of a pod that templates yield": {
			"volumeUnstaging", `{volumeUnstaging: {podTemplate: {metadata: {namespace: "{{ pvc.metadata.namespace }}"}, spec: {securityContext: {runAsUser: "{% set yaml = true %}{{ num }}"}, containers: "{% set yaml = true %}{% for x in list %}\n- name: {{ x | string | tojson }}\n{% endfor %}"}}}}`,
			&v1alpha1.VolumeCleanup{PodTemplate: pod(func(p *corev1.PodTemplateSpec) {
				p.ObjectMeta = metav1.ObjectMeta{Namespace: "shop"}
				p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(5))}
				p.Spec.Containers = []corev1.Container{{Name: "1"}, {Name: "x"}}
			})},
		},
		"merges and overrides of YAML": {
			"volumeCreation", `{volumeCreation: "{% set yaml = true %}{<<: {handle: a, capacity: 1}, handle: b}"}`,
			&v1alpha1.VolumeCreation{Handle: "b", Capacity: &one},
		},
		"another claim": {
			"volumeCreation", `{volumeCreation: {handle: "{{ get_pvc('other', pvc.metadata.namespace).metadata.name }}", capacity: "{{ get_pvc('other', 'vault').size - 6 }}"}, podNamespaces: {names: [vault]}}`,
			&v1alpha1.VolumeCreation{Handle: "other", Capacity: &one},
		},
		"what is undefined has a default": {
			"volumeCreation", `{volumeCreation: {handle: "{{ params.x | default('d') if params is defined else sc or 'e' }}", capacity: 1}}`,
			&v1alpha1.VolumeCreation{Handle: "e", Capacity: &one},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := evaluations[tc.step](render.Request{Spec: specOf(t, tc.spec), Variables: object(t, variables), GetClaim: claims})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEvaluateErrors(t *testing.T) {
	t.Parallel()
	const bomb = `"{% set yaml = true %}{a: &a {{ ('x' * 100000) | tojson }}, b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a], c: [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]}"`
	tests := map[string]struct{ step, spec, want string }{
		"a syntax error":          {"volumeCreation", `{volumeCreation: {handle: "a\nb {{ }}"}}`, "spec.volumeCreation.handle: line 2, column "},
		"an undefined variable":   {"volumeCreation", `{volumeCreation: {handle: "x {{ sc.a }}"}}`, "spec.volumeCreation.handle: line 1, column "},
		"a value with no text":    {"volumeCreation", `{volumeCreation: {handle: "{{ list }}"}}`, "spec.volumeCreation.handle: line 1, column "},
		"in a list":               {"volumeStaging", `{volumeStaging: {podTemplate: {spec: {containers: [{name: a}, {args: ["{{ x }}"]}]}}}}`, "spec.volumeStaging.podTemplate.spec.containers[1].args[0]: line 1, column "},
		"below an odd key":        {"volumeStaging", `{volumeStaging: {podTemplate: {metadata: {annotations: {"a.b/c": "{{ x }}"}}}}}`, "spec.volumeStaging.podTemplate.metadata.annotations[a.b/c]: line 1, column "},
		"a whole step":            {"volumeStaging", `{volumeStaging: "\n\n {{ x }}"}`, "spec.volumeStaging: line 3, column "},
		"YAML that is none":       {"volumeStaging", `{volumeStaging: {podTemplate: "{% set yaml = true %}\na: [b"}}`, "spec.volumeStaging.podTemplate: the result of the template, with yaml = true: yaml: "},
		"several documents":       {"volumeStaging", `{volumeStaging: {podTemplate: "{% set yaml = true %}a: b\n---\nc: d"}}`, "must be one YAML document"},
		"keys that are numbers":   {"volumeStaging", `{volumeStaging: {podTemplate: "{% set yaml = true %}{metadata: {labels: {5: a}}}"}}`, "the key 5 must be a string"},
		"a number that is none":   {"volumeCreation", `{volumeCreation: {capacity: "{% set yaml = true %}.nan"}}`, "NaN is not a number of JSON"},
		"a large integer":         {"volumeCreation", `{volumeCreation: {capacity: "{% set yaml = true %}9223372036854775808"}}`, "9223372036854775808 is larger than"},
		"YAML of aliases":         {"volumeStaging", `{volumeStaging: ` + bomb + `}`, "spec.volumeStaging: the result of the template, with yaml = true: "},
		"deep YAML":               {"volumeStaging", `{volumeStaging: "{% set yaml = true %}{{ '[' * 200 }}{{ ']' * 200 }}"}`, "nested too deeply"},
		"a text for a step":       {"volumeStaging", `{volumeStaging: "{{ s }}"}`, "spec.volumeStaging: must be an object, or a template that yields one, and is a string"},
		"a number for a step":     {"volumeCreation", `{volumeCreation: 5}`, "spec.volumeCreation: must be an object, or a template that yields one, and is a number"},
		"a list for a step":       {"volumeDeletion", `{volumeDeletion: [a]}`, "spec.volumeDeletion: must be an object, or a template that yields one, and is a list"},
		"an unknown field":        {"volumeDeletion", `{volumeDeletion: {podTemplat: {}}}`, "spec.volumeDeletion.podTemplat: unknown field: must be one of podTemplate"},
		"staging without a pod":   {"volumeStaging", `{volumeStaging: {}}`, "spec.volumeStaging.podTemplate: must be set"},
		"no capacity and no pod":  {"volumeCreation", `{volumeCreation: {handle: a}}`, "spec.volumeCreation: must have a capacity"},
		"creation that is absent": {"volumeCreation", `{}`, "spec.volumeCreation: must have a capacity"},
		"an empty handle":         {"volumeCreation", `{volumeCreation: {handle: "{{ '' }}", capacity: 1}}`, "spec.volumeCreation.handle: must not be empty"},
		"a handle of YAML":        {"volumeCreation", `{volumeCreation: {handle: "{% set yaml = true %}5", capacity: 1}}`, "spec.volumeCreation.handle: must be a string, and is a number"},
		"no quantity":             {"volumeCreation", `{volumeCreation: {capacity: "{{ s }}"}}`, `spec.volumeCreation.capacity: must be a quantity such as 1073741824 or 1Gi, and is "a b"`},
		"a capacity of 0":         {"volumeCreation", `{volumeCreation: {capacity: "0"}}`, "spec.volumeCreation.capacity: must be more than 0"},
		"a negative capacity":     {"volumeCreation", `{volumeCreation: {capacity: -1}}`, "spec.volumeCreation.capacity: must be more than 0"},
		"too large a capacity":    {"volumeCreation", `{volumeCreation: {capacity: 9223372036854775808}}`, "spec.volumeCreation.capacity: "},
		"a huge exponent":         {"volumeCreation", `{volumeCreation: {capacity: "{{ '1e' ~ 999999999 }}"}}`, "spec.volumeCreation.capacity: must be a quantity such as"},
		"a fraction":              {"volumeCreation", `{volumeCreation: {capacity: "{% set yaml = true %}1.5"}}`, "spec.volumeCreation.capacity: must be a quantity, and is a number"},
		"modes that are no list":  {"volumeValidation", `{volumeValidation: {volumeModes: "Block"}}`, "spec.volumeValidation.volumeModes: must be a list, and is a string"},
		"no modes":                {"volumeValidation", `{volumeValidation: {accessModes: []}}`, "spec.volumeValidation.accessModes: must have at least one item"},
		"an unknown mode":         {"volumeValidation", `{volumeValidation: {accessModes: [ReadWriteOnce, "{{ s }}"]}}`, "spec.volumeValidation.accessModes[1]: must be one of [ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod], and is a b"},
		"limits that cross":       {"volumeValidation", `{volumeValidation: {minCapacity: 2, maxCapacity: 1}}`, "spec.volumeValidation.minCapacity: must not be more than maxCapacity, 1, and is 2"},
		"a pod that is no object": {"volumeDeletion", `{volumeDeletion: {podTemplate: [a]}}`, "spec.volumeDeletion.podTemplate: must be an object, or a template that yields one, and is a list"},
		"an unknown pod field":    {"volumeDeletion", `{volumeDeletion: {podTemplate: {spec: {containers: [{name: a}, {imag: b}]}}}}`, "spec.volumeDeletion.podTemplate.spec.containers[1].imag: unknown field of a PodTemplateSpec"},
		"a field in other case":   {"volumeDeletion", `{volumeDeletion: {podTemplate: {Spec: {}}}}`, "spec.volumeDeletion.podTemplate.Spec: unknown field of a PodTemplateSpec"},
		"a field of other type":   {"volumeDeletion", `{volumeDeletion: {podTemplate: {spec: {activeDeadlineSeconds: "{{ num }}"}}}}`, "spec.volumeDeletion.podTemplate.spec.activeDeadlineSeconds: must not be of the type string"},
		"a quantity in a pod":     {"volumeDeletion", `{volumeDeletion: {podTemplate: {spec: {overhead: {cpu: x y}}}}}`, "spec.volumeDeletion.podTemplate: quantities must match"},
		"another namespace":       {"volumeCreation", `{volumeCreation: {handle: "{{ get_pvc('a', 'bank').size }}"}}`, `spec.volumeCreation.handle: line 1, column 4: get_pvc: must not read namespace "bank"`},
		"no namespace":            {"volumeCreation", `{volumeCreation: {handle: "{{ get_pvc('a').size }}"}}`, "get_pvc: must have a name and a namespace, and has 1 arguments"},
		"a name that is a list":   {"volumeCreation", `{volumeCreation: {handle: "{{ get_pvc(list, 'shop').size }}"}}`, "get_pvc: name and namespace must be strings"},
		"a claim that is gone":    {"volumeCreation", `{volumeCreation: {handle: "{{ get_pvc('missing', 'shop').size }}"}}`, `get_pvc: persistentvolumeclaims "missing" not found`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := evaluations[tc.step](render.Request{Spec: specOf(t, tc.spec), Variables: object(t, variables), GetClaim: claims})
			wantError(t, got, err, tc.want)
		})
	}
}

func wantError(t *testing.T, got any, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, but %+v", got)
	}
	if _, ok := errors.AsType[*render.Error](err); !ok {
		t.Errorf("the error is a %T", err)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestBudgetOfAStep: the templates of a step share one budget, so many small ones cannot do what
// a large one cannot.
func TestBudgetOfAStep(t *testing.T) {
	t.Parallel()
	spec := func(number int) *v1alpha1.PavProvisionerSpec {
		const work = `"{% for i in range(2000) %}{% set x = i %}{% endfor %}"`
		return specOf(t, fmt.Sprintf(`{volumeStaging: {podTemplate: {spec: {containers: [{args: [%s]}]}}}}`, strings.Repeat(work+",", number)))
	}
	if _, err := render.Staging(render.Request{Spec: spec(1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := render.Staging(render.Request{Spec: spec(1000)}); err == nil {
		t.Error("1000 templates of 2000 rounds are within the budget of a step")
	}
}

// TestInputIsUnchanged: evaluation changes neither the provisioner nor the variables.
func TestInputIsUnchanged(t *testing.T) {
	t.Parallel()
	const text = `{volumeStaging: {podTemplate: {metadata: {name: "{{ s }}"}, spec: "{% set yaml = true %}{{ pvc.metadata | tojson }}"}}}`
	r := render.Request{Spec: specOf(t, text), Variables: object(t, variables)}
	if _, err := render.Staging(r); err == nil {
		t.Error("metadata is no spec")
	}
	if diff := cmp.Diff(render.Request{Spec: specOf(t, text), Variables: object(t, variables)}, r); diff != "" {
		t.Error(diff)
	}
}
