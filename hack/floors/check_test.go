// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package floors

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
		clock   []Use
		want    []string
	}{
		"each floor imports a lower one and leaves": {
			file:    "pkg/plugin/volumetopology/filter.go",
			imports: []string{framework, own + "pkg/binder", own + "pkg/volumecache", own + "pkg/volume/match", own + "pkg/metrics", own + "pkg/apis/config"},
		},
		"wiring imports everything": {
			file:    "cmd/scheduler/app/command.go",
			imports: []string{"k8s.io/kubernetes/cmd/kube-scheduler/app", framework, own + "pkg/plugin/volumetopology", own + "pkg/server"},
		},
		"upwards": {
			file:    "pkg/volumecache/cache.go",
			imports: []string{own + "pkg/binder"},
			want:    []string{"pkg/volumecache/cache.go imports pkg/binder: imports go down, not from floor 1 to 2"},
		},
		"sideways on floor 2": {
			file:    "pkg/binder/bind.go",
			imports: []string{own + "pkg/blockdev"},
			want:    []string{"pkg/binder/bind.go imports pkg/blockdev sideways: both stand on floor 2"},
		},
		"sideways on floor 3, between plugins": {
			file:    "pkg/plugin/a/plugin.go",
			imports: []string{own + "pkg/plugin/b"},
			want:    []string{"pkg/plugin/a/plugin.go imports pkg/plugin/b sideways: both stand on floor 3"},
		},
		"sideways between commands": {
			file:    "cmd/extender/main.go",
			imports: []string{own + "cmd/scheduler/app"},
			want:    []string{"cmd/extender/main.go imports cmd/scheduler/app sideways: both stand on floor 5"},
		},
		"within a room there is no up or sideways": {
			file:    "pkg/plugin/a/plugin.go",
			imports: []string{own + "pkg/plugin/a/scoring"},
		},
		"no floor": {
			file: "pkg/helpers/x.go",
			want: []string{"pkg/helpers has no floor: give it one in hack/floors/table.go"},
		},
		"a room's parent has no floor of its own": {
			file: "pkg/volume/x.go",
			want: []string{"pkg/volume has no floor: give it one in hack/floors/table.go"},
		},
		"floor 0 takes the standard library, API types and node affinity": {
			file: "pkg/volume/match/assign.go",
			imports: []string{
				"math/bits", "slices", "time", "k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/labels",
				"k8s.io/component-helpers/scheduling/corev1/nodeaffinity", own + "pkg/volume/topology",
			},
		},
		"floor 0 takes a client": {
			file:    "pkg/volume/match/assign.go",
			imports: []string{"k8s.io/client-go/kubernetes"},
			want: []string{"pkg/volume/match/assign.go imports k8s.io/client-go/kubernetes: floor 0 imports the standard library, " +
				"k8s.io/api, k8s.io/apimachinery, k8s.io/component-helpers/scheduling/corev1/nodeaffinity only"},
		},
		"floor 0 takes the log": {
			file:    "pkg/local/discovery/plan.go",
			imports: []string{"k8s.io/klog/v2"},
			want: []string{"pkg/local/discovery/plan.go imports k8s.io/klog/v2: floor 0 imports the standard library, " +
				"k8s.io/api, k8s.io/apimachinery, k8s.io/component-helpers/scheduling/corev1/nodeaffinity only"},
		},
		"floor 0 takes the helpers that drag in client-go": {
			file:    "pkg/volume/plan/plan.go",
			imports: []string{"k8s.io/component-helpers/storage/volume"},
			want: []string{"pkg/volume/plan/plan.go imports k8s.io/component-helpers/storage/volume: floor 0 imports the standard library, " +
				"k8s.io/api, k8s.io/apimachinery, k8s.io/component-helpers/scheduling/corev1/nodeaffinity only"},
		},
		"floor 0 looks outside": {
			file:    "pkg/volume/match/assign.go",
			imports: []string{"math/rand/v2", "net/http", "os"},
			want: []string{
				"pkg/volume/match/assign.go imports math/rand/v2: floor 0 decides from its arguments alone",
				"pkg/volume/match/assign.go imports net/http: floor 0 decides from its arguments alone",
				"pkg/volume/match/assign.go imports os: floor 0 decides from its arguments alone",
			},
		},
		"floor 0 asks the clock": {
			file:    "pkg/volume/plan/plan.go",
			imports: []string{"time"},
			clock:   []Use{{"time.Now", 12}},
			want:    []string{"pkg/volume/plan/plan.go:12 uses time.Now: floor 0 is told the time"},
		},
		"above floor 0 the clock may be asked": {
			file:    "pkg/volumecache/cache.go",
			imports: []string{"time", "os"},
			clock:   []Use{{"time.Now", 12}},
		},
		"floor 0 takes a leaf": {
			file:    "pkg/volume/match/assign.go",
			imports: []string{own + "pkg/metrics"},
			want:    []string{"pkg/volume/match/assign.go imports pkg/metrics: floor 0 imports floor 0 only"},
		},
		"floor 0 goes up": {
			file:    "pkg/volume/match/assign.go",
			imports: []string{own + "pkg/volumecache"},
			want:    []string{"pkg/volume/match/assign.go imports pkg/volumecache: floor 0 imports floor 0 only"},
		},
		"a leaf takes floor 0": {
			file:    "pkg/metrics/metrics.go",
			imports: []string{own + "pkg/volume/match"},
			want:    []string{"pkg/metrics/metrics.go imports pkg/volume/match: leaves import nothing of the product outside pkg/metrics"},
		},
		"API packages import each other": {
			file:    "pkg/apis/config/v1/conversion.go",
			imports: []string{own + "pkg/apis/config"},
		},
		"the scheduler itself, where its configuration's scheme is extended": {
			file:    "pkg/apis/config/scheme/scheme.go",
			imports: []string{"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"},
		},
		"the scheduler itself, in a plugin": {
			file:    "pkg/plugin/volumetopology/plugin.go",
			imports: []string{"k8s.io/kubernetes/pkg/scheduler/framework"},
			want: []string{"pkg/plugin/volumetopology/plugin.go: k8s.io/kubernetes/pkg/scheduler/framework must not be imported: " +
				"plugins are written against k8s.io/kube-scheduler/framework; only cmd/scheduler and pkg/apis/config/scheme meet the scheduler itself"},
		},
		"the scheduler itself, in another command": {
			file:    "cmd/extender/main.go",
			imports: []string{"k8s.io/kubernetes/pkg/scheduler/framework"},
			want: []string{"cmd/extender/main.go: k8s.io/kubernetes/pkg/scheduler/framework must not be imported: " +
				"plugins are written against k8s.io/kube-scheduler/framework; only cmd/scheduler and pkg/apis/config/scheme meet the scheduler itself"},
		},
		"the scheduler itself, in a test": {
			file:    "pkg/plugin/volumetopology/plugin_test.go",
			imports: []string{"k8s.io/kubernetes/pkg/scheduler/framework/runtime"},
		},
		"the framework in the binder": {
			file:    "pkg/binder/bind.go",
			imports: []string{framework},
			want: []string{"pkg/binder/bind.go: k8s.io/kube-scheduler/framework must not be imported: " +
				"only plugins know the scheduling framework, so that everything below them serves the extender and the command line too"},
		},
		"the framework in the cache": {
			file:    "pkg/volumecache/cache.go",
			imports: []string{framework},
			want: []string{"pkg/volumecache/cache.go: k8s.io/kube-scheduler/framework must not be imported: " +
				"only plugins know the scheduling framework, so that everything below them serves the extender and the command line too"},
		},
		"a package whose name only begins like a banned one": {
			file:    "pkg/extender/handler.go",
			imports: []string{"k8s.io/kube-scheduler/extender/v1", "k8s.io/kubernetes-like"},
		},
		"the cache reads through informers": {
			file:    "pkg/volumecache/cache.go",
			imports: []string{"k8s.io/client-go/informers", "k8s.io/client-go/tools/cache"},
		},
		"the cache holds a clientset": {
			file:    "pkg/volumecache/cache.go",
			imports: []string{"k8s.io/client-go/kubernetes/typed/core/v1"},
			want: []string{"pkg/volumecache/cache.go: k8s.io/client-go/kubernetes/typed/core/v1 must not be imported: " +
				"floor 1 reads through informers and listers; writing is for floor 2"},
		},
		"the binder speaks HTTP": {
			file:    "pkg/binder/bind.go",
			imports: []string{"net/http"},
			want: []string{"pkg/binder/bind.go: net/http must not be imported: " +
				"the binder talks to the API server through its clientset alone"},
		},
		"devices know pods": {
			file:    "pkg/blockdev/wipe_linux.go",
			imports: []string{"k8s.io/api/core/v1"},
			want:    []string{"pkg/blockdev/wipe_linux.go: k8s.io/api/core/v1 must not be imported: devices and mounts know nothing of Kubernetes"},
		},
		"fixtures in the product": {
			file:    "pkg/binder/bind.go",
			imports: []string{own + "pkg/testing/builders"},
			want:    []string{"pkg/binder/bind.go imports pkg/testing/builders: fixtures are for test files and test/"},
		},
		"fixtures in tools": {
			file:    "hack/demo/main.go",
			imports: []string{own + "pkg/testing/builders"},
			want:    []string{"hack/demo/main.go imports pkg/testing/builders: fixtures are for test files and test/"},
		},
		"fixtures in a test file": {
			file:    "pkg/binder/bind_test.go",
			imports: []string{own + "pkg/testing/builders", own + "pkg/extender"},
		},
		"fixtures below test": {
			file:    "test/cluster/nodes.go",
			imports: []string{own + "pkg/testing/builders"},
		},
		"the product uses its test cluster": {
			file:    "pkg/binder/bind.go",
			imports: []string{own + "test/cluster"},
			want:    []string{"pkg/binder/bind.go imports test/cluster: the product does not import its tests and tools"},
		},
		"go-cmp in the product": {
			file:    "pkg/binder/bind.go",
			imports: []string{"github.com/google/go-cmp/cmp"},
			want: []string{"pkg/binder/bind.go: github.com/google/go-cmp/cmp must not be imported: " +
				"go-cmp panics on what it cannot compare: it is for tests"},
		},
		"a test framework, even in a test": {
			file:    "test/integration/bind_test.go",
			imports: []string{"github.com/stretchr/testify/require"},
			want: []string{"test/integration/bind_test.go: github.com/stretchr/testify/require must not be imported: " +
				"tests are written with the standard library and go-cmp"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := File{Path: tc.file, Imports: tc.imports, Clock: tc.clock}
			if diff := cmp.Diff(tc.want, Check([]File{f}, Rooms(), Bans())); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckDeps(t *testing.T) {
	t.Parallel()
	got := CheckDeps([]string{"fmt", "k8s.io/api/core/v1", "k8s.io/client-go/rest"})
	want := []string{"floor 0 drags in k8s.io/client-go/rest, through one of its imports"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("breaches (-want +got):\n%s", diff)
	}
}

func TestReadTree(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":                  "module example.com\n",
		"pkg/a/a.go":              "package a\n\nimport (\n\t\"os\"\n\tclock \"time\"\n)\n\nvar now = clock.Now\n\nvar d clock.Duration = clock.Second\n\nvar _ = os.Args\n",
		"pkg/a/a_test.go":         "package a\n\nimport \"testing\"\n\nvar _ testing.TB\n",
		"pkg/a/dot.go":            "package a\n\nimport . \"time\"\n\nvar _ Duration\n",
		"pkg/a/field.go":          "package a\n\nvar time struct{ Now int }\n\nvar _ = time.Now\n",
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
		{Path: "pkg/a/a.go", Imports: []string{"os", "time"}, Clock: []Use{{"time.Now", 8}}},
		{Path: "pkg/a/a_test.go", Imports: []string{"testing"}},
		{Path: "pkg/a/dot.go", Imports: []string{"time"}, Clock: []Use{{"time.*", 3}}},
		{Path: "pkg/a/field.go"},
		{Path: "pkg/a/other_platform.go", Imports: []string{"syscall"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
