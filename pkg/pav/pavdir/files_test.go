// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavdir_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/pav/pavdir"
)

// TestFilesAreDescribed: each constant of the type Name has one description, and there are no others. The
// packages that read /pav name its entries by these constants only.
func TestFilesAreDescribed(t *testing.T) {
	t.Parallel()
	var names []string
	for _, file := range parsed(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Name" {
				names = append(names, literal(t, spec.Values[0]))
			}
			return true
		})
	}
	var described []string
	for _, f := range pavdir.Files() {
		described = append(described, string(f.Name))
		if f.Steps == "" || f.Meaning == "" {
			t.Errorf("%s: steps %q, meaning %q", f.Name, f.Steps, f.Meaning)
		}
	}
	slices.Sort(names)
	slices.Sort(described)
	if diff := cmp.Diff(names, described); diff != "" {
		t.Errorf("names (-constants +descriptions):\n%s", diff)
	}
	takesName := []string{"Exists", "read", "open", "problem", "broken", "field"}
	for _, folder := range []string{".", "../../../cmd/pav-reporter/app", "../nodeservice/stagingdir", "../nodeservice/publish"} {
		for _, file := range parsed(t, folder) {
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				of := ""
				switch function := call.Fun.(type) {
				case *ast.Ident:
					of = function.Name
				case *ast.SelectorExpr:
					of = function.Sel.Name
				}
				if text, ok := call.Args[0].(*ast.BasicLit); ok && slices.Contains(takesName, of) {
					t.Errorf("%s: %s(%s) names an entry of /pav by a literal", folder, of, text.Value)
				}
				return true
			})
		}
	}
}

// parsed returns the files of a package without its tests.
func parsed(t *testing.T, folder string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in %s: %v", folder, err)
	}
	var files []*ast.File
	for _, name := range names {
		if matched, _ := filepath.Match("*_test.go", filepath.Base(name)); matched {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	text, ok := e.(*ast.BasicLit)
	if !ok {
		t.Fatalf("a %T, want a literal", e)
	}
	value, err := strconv.Unquote(text.Value)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
