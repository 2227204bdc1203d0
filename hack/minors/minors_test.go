// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package minors tests what builds for several minor versions of Kubernetes rely on.
package minors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const top = "../.."

// minors are those that the scheduler is built for, the newest last.
func minors(t *testing.T) []string {
	t.Helper()
	modules, err := filepath.Glob(filepath.Join(top, "pkg", "kubecompat", "*", "go.mod"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("modules %v, error %v", modules, err)
	}
	for i, module := range modules {
		modules[i] = filepath.Base(filepath.Dir(module))
	}
	slices.Sort(modules)
	return modules
}

// TestRefusals: make refuses a minor that the scheduler or the target is not built for with one
// line, which names those that work.
func TestRefusals(t *testing.T) {
	t.Parallel()
	all := minors(t)
	newest := all[len(all)-1]
	tests := map[string]string{ // by arguments of make
		"bench-scheduler-perf KUBE=" + all[0]: "KUBE=" + all[0] + ": bench-scheduler-perf contains scheduler_perf of Kubernetes " + newest + ", and works with no other.",
	}
	for _, asked := range []string{"1.34", "1.99", "v1.36", "1.36.3", "1.35 1.36", "%"} {
		tests["build KUBE="+asked] = "KUBE=" + asked + ": the scheduler is built for Kubernetes " + strings.Join(all, ", ") + "."
	}
	for arguments, want := range tests {
		target, variable, _ := strings.Cut(arguments, " ")
		command := exec.CommandContext(t.Context(), "make", "-C", top, "--no-print-directory", target, variable)
		command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") })
		out, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("make %s: error %v, output %q; want the line %q", arguments, err, out, want)
		}
	}
}

// TestModuleFiles: the module file of each minor takes the differences from its folder, all modules
// of Kubernetes from its patch, and the page on compatibility names that.
func TestModuleFiles(t *testing.T) {
	t.Parallel()
	all := minors(t)
	page := read(t, "docs/compatibility.md")
	for i, minor := range all {
		required := regexp.MustCompile(`(?m)^require k8s\.io/kubernetes v1\.(\S+)$`).FindStringSubmatch(read(t, "pkg/kubecompat/"+minor+"/go.mod"))
		if required == nil || !strings.HasPrefix("1."+required[1], minor+".") {
			t.Errorf("pkg/kubecompat/%s/go.mod requires Kubernetes %v", minor, required)
			continue
		}
		patch, name := required[1], "go-"+minor+".mod"
		if i == len(all)-1 {
			name = "go.mod"
		}
		text := read(t, name)
		for _, want := range []string{"\tk8s.io/kubernetes v1." + patch + "\n", "\nreplace stowage.dev/kubecompat => ./pkg/kubecompat/" + minor + "\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not have %q", name, want)
			}
		}
		for _, replaced := range regexp.MustCompile(`(?m)^replace k8s\.io/\S+ => \S+ v0\.(\S+)$`).FindAllStringSubmatch(text, -1) {
			if replaced[1] != patch {
				t.Errorf("%s: %s, want v0.%s", name, replaced[0], patch)
			}
		}
		if !strings.Contains(page, "1."+patch) {
			t.Errorf("docs/compatibility.md does not name Kubernetes 1.%s", patch)
		}
	}
}

// TestSameAPI: the modules of all minors export the same names.
func TestSameAPI(t *testing.T) {
	t.Parallel()
	var want []string
	for i, minor := range minors(t) {
		got := exported(t, filepath.Join(top, "pkg", "kubecompat", minor))
		if len(got) == 0 {
			t.Errorf("pkg/kubecompat/%s exports nothing", minor)
		}
		if i == 0 {
			want = got
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-%s +%[1]s):\n%[3]s", minor, minors(t)[0], diff)
		}
	}
}

// exported are the exported names of all packages below a folder, as folder.Name.
func exported(t *testing.T, root string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range append(own, files...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range syntax.Decls {
			for _, name := range namesOf(d) {
				if name.IsExported() {
					names = append(names, syntax.Name.Name+"."+name.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func namesOf(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{d.Name}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name)
			case *ast.ValueSpec:
				names = append(names, spec.Names...)
			}
		}
		return names
	}
	return nil
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
