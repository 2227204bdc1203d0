// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each rule, broken and kept, so that the check of the real tree is known to be able to fail.
func TestCheck(t *testing.T) {
	t.Parallel()
	const (
		own       = Module + "/"
		framework = "k8s.io/kube-scheduler/framework"
	)

	tests := map[string]struct {
		file    string
		imports []string
		want    []string
	}{
		"each layer imports a lower one and leaves": {
			file:    "pkg/scheduling/volumetopology/filter.go",
			imports: []string{framework, own + "pkg/scheduling/binder", own + "pkg/scheduling/volumecache", own + "pkg/scheduling/match", own + "pkg/metrics", own + "pkg/apis/config/v1"},
		},
		"wiring imports everything": {
			file:    "cmd/scheduler/app/command.go",
			imports: []string{"k8s.io/kubernetes/cmd/kube-scheduler/app", framework, own + "pkg/scheduling/volumetopology", own + "pkg/server"},
		},
		"upwards": {
			file:    "pkg/scheduling/volumecache/cache.go",
			imports: []string{own + "pkg/scheduling/binder"},
			want:    []string{"pkg/scheduling/volumecache/cache.go imports pkg/scheduling/binder: imports go down, not from layer 1 to 2"},
		},
		"sideways in layer 2": {
			file:    "pkg/scheduling/binder/bind.go",
			imports: []string{own + "pkg/localdisk/device"},
			want:    []string{"pkg/scheduling/binder/bind.go imports pkg/localdisk/device sideways: both are in layer 2"},
		},
		"sideways between controllers": {
			file:    "pkg/controller/a/controller.go",
			imports: []string{own + "pkg/controller/b"},
			want:    []string{"pkg/controller/a/controller.go imports pkg/controller/b sideways: both are in layer 2"},
		},
		"sideways between commands": {
			file:    "cmd/extender/main.go",
			imports: []string{own + "cmd/scheduler/app"},
			want:    []string{"cmd/extender/main.go imports cmd/scheduler/app sideways: both are in layer 5"},
		},
		"a package imports its own subpackages": {
			file:    "pkg/controller/a/controller.go",
			imports: []string{own + "pkg/controller/a/client"},
		},
		"no layer": {
			file: "pkg/helpers/x.go",
			want: []string{"pkg/helpers has no layer: add it in hack/layers/table.go"},
		},
		"a package's parent has no layer of its own": {
			file: "pkg/scheduling/x.go",
			want: []string{"pkg/scheduling has no layer: add it in hack/layers/table.go"},
		},
		"layer 0 takes the standard library, API types and node affinity": {
			file: "pkg/scheduling/match/assign.go",
			imports: []string{
				"math/bits", "slices", "time", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/labels",
				"k8s.io/component-helpers/scheduling/corev1/nodeaffinity", own + "pkg/scheduling/topology",
			},
		},
		"layer 0 takes a client": {
			file:    "pkg/scheduling/match/assign.go",
			imports: []string{"k8s.io/client-go/kubernetes"},
			want: []string{"pkg/scheduling/match/assign.go imports k8s.io/client-go/kubernetes: layer 0 imports the standard library, " +
				"k8s.io/api, k8s.io/apimachinery, k8s.io/component-helpers/scheduling/corev1/nodeaffinity, go.yaml.in/yaml/v2, sigs.k8s.io/json only"},
		},
		"layer 0 takes the log": {
			file:    "pkg/localdisk/decide/plan.go",
			imports: []string{"k8s.io/klog/v2"},
			want: []string{"pkg/localdisk/decide/plan.go imports k8s.io/klog/v2: layer 0 imports the standard library, " +
				"k8s.io/api, k8s.io/apimachinery, k8s.io/component-helpers/scheduling/corev1/nodeaffinity, go.yaml.in/yaml/v2, sigs.k8s.io/json only"},
		},
		"layer 0 takes the helpers that depend on client-go": {
			file:    "pkg/scheduling/plan/plan.go",
			imports: []string{"k8s.io/component-helpers/storage/volume"},
			want: []string{"pkg/scheduling/plan/plan.go imports k8s.io/component-helpers/storage/volume: layer 0 imports the standard library, " +
				"k8s.io/api, k8s.io/apimachinery, k8s.io/component-helpers/scheduling/corev1/nodeaffinity, go.yaml.in/yaml/v2, sigs.k8s.io/json only"},
		},
		"layer 0 imports packages with side effects": {
			file:    "pkg/scheduling/match/assign.go",
			imports: []string{"math/rand/v2", "net/http", "os"},
			want: []string{
				"pkg/scheduling/match/assign.go imports math/rand/v2: layer 0 decides from its arguments alone",
				"pkg/scheduling/match/assign.go imports net/http: layer 0 decides from its arguments alone",
				"pkg/scheduling/match/assign.go imports os: layer 0 decides from its arguments alone",
			},
		},
		"layer 0 takes a leaf": {
			file:    "pkg/scheduling/match/assign.go",
			imports: []string{own + "pkg/metrics"},
			want:    []string{"pkg/scheduling/match/assign.go imports pkg/metrics: layer 0 imports layer 0 only"},
		},
		"layer 0 imports a higher layer": {
			file:    "pkg/scheduling/match/assign.go",
			imports: []string{own + "pkg/scheduling/volumecache"},
			want:    []string{"pkg/scheduling/match/assign.go imports pkg/scheduling/volumecache: layer 0 imports layer 0 only"},
		},
		"layer 0 takes the keys": {
			file:    "pkg/scheduling/match/assign.go",
			imports: []string{own + "pkg/apis/wellknown"},
		},
		"a leaf takes layer 0": {
			file:    "pkg/metrics/metrics.go",
			imports: []string{own + "pkg/scheduling/match"},
			want:    []string{"pkg/metrics/metrics.go imports pkg/scheduling/match: leaves import nothing of the product outside pkg/metrics"},
		},
		"API packages import each other": {
			file:    "pkg/apis/extender/v1alpha1/types.go",
			imports: []string{own + "pkg/apis/config/v1"},
		},
		"the scheduler itself, where its configuration's scheme is extended": {
			file:    "pkg/apis/config/scheme/scheme.go",
			imports: []string{"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"},
		},
		"the scheduler itself, in a plugin": {
			file:    "pkg/scheduling/volumetopology/plugin.go",
			imports: []string{"k8s.io/kubernetes/pkg/scheduler/framework"},
			want: []string{"pkg/scheduling/volumetopology/plugin.go imports k8s.io/kubernetes/pkg/scheduler/framework: " +
				"plugins are written against k8s.io/kube-scheduler/framework; only what runs or configures the scheduler imports it"},
		},
		"the scheduler itself, in another command": {
			file:    "cmd/extender/main.go",
			imports: []string{"k8s.io/kubernetes/pkg/scheduler/framework"},
			want: []string{"cmd/extender/main.go imports k8s.io/kubernetes/pkg/scheduler/framework: " +
				"plugins are written against k8s.io/kube-scheduler/framework; only what runs or configures the scheduler imports it"},
		},
		"the scheduler itself, in a test": {
			file:    "pkg/scheduling/volumetopology/plugin_test.go",
			imports: []string{"k8s.io/kubernetes/pkg/scheduler/framework/runtime"},
		},
		"the framework in the binder": {
			file:    "pkg/scheduling/binder/bind.go",
			imports: []string{framework},
			want: []string{"pkg/scheduling/binder/bind.go imports k8s.io/kube-scheduler/framework: " +
				"only plugins import the scheduling framework; the extender and the command line use the packages below them"},
		},
		"the scheduler of several minors, in a plugin": {
			file:    "pkg/scheduling/volumetopology/plugin.go",
			imports: []string{"stowage.dev/kubecompat/plugin", "stowage.dev/kubecompat/scheduler"},
			want: []string{"pkg/scheduling/volumetopology/plugin.go imports stowage.dev/kubecompat/scheduler: " +
				"plugins are written against k8s.io/kube-scheduler/framework; only what runs or configures the scheduler imports it"},
		},
		"the framework in the cache": {
			file:    "pkg/scheduling/volumecache/cache.go",
			imports: []string{framework},
			want: []string{"pkg/scheduling/volumecache/cache.go imports k8s.io/kube-scheduler/framework: " +
				"only plugins import the scheduling framework; the extender and the command line use the packages below them"},
		},
		"a package whose name only begins like a banned one": {
			file:    "pkg/scheduling/extender/handler.go",
			imports: []string{"k8s.io/kube-scheduler/extender/v1", "k8s.io/kubernetes-like"},
		},
		"the cache reads through informers": {
			file:    "pkg/scheduling/volumecache/cache.go",
			imports: []string{"k8s.io/client-go/informers", "k8s.io/client-go/tools/cache"},
		},
		"the cache holds a clientset": {
			file:    "pkg/scheduling/volumecache/cache.go",
			imports: []string{"k8s.io/client-go/kubernetes/typed/core/v1"},
			want: []string{"pkg/scheduling/volumecache/cache.go imports k8s.io/client-go/kubernetes/typed/core/v1: " +
				"layer 1 reads through informers and listers; writing is for layer 2"},
		},
		"the binder imports HTTP": {
			file:    "pkg/scheduling/binder/bind.go",
			imports: []string{"net/http"},
			want: []string{"pkg/scheduling/binder/bind.go imports net/http: " +
				"the binder accesses the API server only through its clientset"},
		},
		"devices import the API of pods": {
			file:    "pkg/localdisk/device/wipe_linux.go",
			imports: []string{"k8s.io/api/core/v1"},
			want:    []string{"pkg/localdisk/device/wipe_linux.go imports k8s.io/api/core/v1: packages of devices and mounts do not depend on Kubernetes"},
		},
		"fixtures in the product": {
			file:    "pkg/scheduling/binder/bind.go",
			imports: []string{own + "pkg/testing/builders"},
			want:    []string{"pkg/scheduling/binder/bind.go imports pkg/testing/builders: fixtures are for test files and test/"},
		},
		"fixtures in tools": {
			file:    "hack/demo/main.go",
			imports: []string{own + "pkg/testing/builders"},
			want:    []string{"hack/demo/main.go imports pkg/testing/builders: fixtures are for test files and test/"},
		},
		"fixtures in a test file": {
			file:    "pkg/scheduling/binder/bind_test.go",
			imports: []string{own + "pkg/testing/builders", own + "pkg/scheduling/extender"},
		},
		"fixtures below test": {
			file:    "test/cluster/nodes.go",
			imports: []string{own + "pkg/testing/builders"},
		},
		"the product uses its test cluster": {
			file:    "pkg/scheduling/binder/bind.go",
			imports: []string{own + "test/cluster"},
			want:    []string{"pkg/scheduling/binder/bind.go imports test/cluster: the product does not import its tests and tools"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := File{Path: tc.file, Imports: tc.imports}
			if diff := cmp.Diff(tc.want, Check([]File{f}, Packages(), Bans())); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckDeps(t *testing.T) {
	t.Parallel()
	got := CheckDeps([]string{"fmt", "k8s.io/api/core/v1", "k8s.io/client-go/rest"})
	want := []string{"layer 0 depends on k8s.io/client-go/rest, through one of its imports"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("breaches (-want +got):\n%s", diff)
	}
}

func TestReadTree(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":                  "module example.com\n",
		"pkg/a/a.go":              "package a\n\nimport (\n\t\"os\"\n\tclock \"time\"\n)\n\nvar now = clock.Now\n\nvar _ = os.Args\n",
		"pkg/a/a_test.go":         "package a\n\nimport \"testing\"\n\nvar _ testing.TB\n",
		"pkg/a/dot.go":            "package a\n\nimport . \"time\"\n\nvar _ Duration\n",
		"pkg/a/other_platform.go": "//go:build plan9\n\npackage a\n\nimport \"syscall\"\n\nvar _ = syscall.Stdin\n",
		"pkg/a/testdata/x.go":     "not Go",
		"vendor/x/x.go":           "not Go",
		".hidden/x.go":            "not Go",
		"hack/nested/go.mod":      "module nested\n",
		"hack/nested/x.go":        "not Go",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	got, err := ReadTree(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []File{
		{Path: "pkg/a/a.go", Imports: []string{"os", "time"}},
		{Path: "pkg/a/a_test.go", Imports: []string{"testing"}},
		{Path: "pkg/a/dot.go", Imports: []string{"time"}},
		{Path: "pkg/a/other_platform.go", Imports: []string{"syscall"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
