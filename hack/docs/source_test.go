// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// parse gives the files of a package without its tests, or the one file that is named.
func parse(t *testing.T, name string) []*ast.File {
	t.Helper()
	names := []string{filepath.Join(root, name)}
	if info, err := os.Stat(names[0]); err != nil {
		t.Fatal(err)
	} else if info.IsDir() {
		if names, err = fs.Glob(os.DirFS(root), name+"/*.go"); err != nil {
			t.Fatal(err)
		}
		for i := range names {
			names[i] = filepath.Join(root, names[i])
		}
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
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

// each calls f with each node of a package's source.
func each(t *testing.T, name string, f func(ast.Node)) {
	t.Helper()
	for _, file := range parse(t, name) {
		ast.Inspect(file, func(n ast.Node) bool {
			if n != nil {
				f(n)
			}
			return true
		})
	}
}

// constantsOf are the values of a package's constants of a type, be it another package's.
func constantsOf(t *testing.T, name, kind string) []string {
	t.Helper()
	return constantsWhere(t, name, func(spec *ast.ValueSpec) bool {
		switch of := spec.Type.(type) {
		case *ast.Ident:
			return of.Name == kind
		case *ast.SelectorExpr:
			return of.Sel.Name == kind
		}
		return false
	})
}

// constants are the values of a package's constants whose names match.
func constants(t *testing.T, name, pattern string) []string {
	t.Helper()
	match := regexp.MustCompile(pattern)
	return constantsWhere(t, name, func(spec *ast.ValueSpec) bool { return match.MatchString(spec.Names[0].Name) })
}

func constantsWhere(t *testing.T, name string, where func(*ast.ValueSpec) bool) []string {
	t.Helper()
	var all []string
	each(t, name, func(n ast.Node) {
		block, ok := n.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			return
		}
		for _, spec := range block.Specs {
			if spec, ok := spec.(*ast.ValueSpec); ok && len(spec.Values) == 1 && where(spec) {
				if text, ok := literal(spec.Values[0], nil); ok {
					all = append(all, text)
				}
			}
		}
	})
	return all
}

// texts are the values of a package's maps named texts, as users read them.
func texts(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	each(t, name, func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "texts" || len(spec.Values) != 1 {
			return
		}
		values, ok := spec.Values[0].(*ast.CompositeLit)
		if !ok {
			return
		}
		for _, element := range values.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				if text, ok := literal(pair.Value, nil); ok {
					all = append(all, asRead(text))
				}
			}
		}
	})
	return all
}

// called are the texts with which a package calls a function, or one of the name in
// another package, as users read them.
func called(t *testing.T, name string, functions ...string) []string {
	t.Helper()
	named := localConstants(t, name)
	var all []string
	each(t, name, func(n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return
		}
		of := ""
		switch function := call.Fun.(type) {
		case *ast.Ident:
			of = function.Name
		case *ast.SelectorExpr:
			of = function.Sel.Name
		}
		for _, function := range functions {
			if text, ok := literal(call.Args[0], named); ok && of == function {
				all = append(all, asRead(text))
			}
		}
	})
	return all
}

// errorsOf are the texts of which errors are made, those of the extender's errors, and those of
// methods that say in words what has happened, as users read them.
func errorsOf(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	for _, text := range called(t, name, "New", "Errorf", "Sprintf") {
		if strings.ContainsAny(text, " ") && text != "… …" {
			all = append(all, text)
		}
	}
	each(t, name, func(n ast.Node) {
		of, ok := n.(*ast.CompositeLit)
		if !ok {
			return
		}
		if kind, ok := of.Type.(*ast.Ident); ok && kind.Name == "callError" && len(of.Elts) > 0 {
			if text := textOf(of.Elts[len(of.Elts)-1]); text != "…" {
				all = append(all, text)
			}
		}
	})
	return append(all, returned(t, name)...)
}

// textOf is a text as users read it, with an ellipsis for each part that is not a literal.
func textOf(e ast.Expr) string {
	if text, ok := literal(e, nil); ok {
		return asRead(text)
	}
	if sum, ok := e.(*ast.BinaryExpr); ok {
		return textOf(sum.X) + textOf(sum.Y)
	}
	return "…"
}

// returned are the texts that methods named Error begin or end with.
func returned(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	each(t, name, func(n ast.Node) {
		function, ok := n.(*ast.FuncDecl)
		if !ok || function.Name.Name != "Error" || function.Recv == nil {
			return
		}
		ast.Inspect(function, func(n ast.Node) bool {
			sum, ok := n.(*ast.BinaryExpr)
			if !ok || sum.Op != token.ADD {
				return true
			}
			if text, ok := literal(sum.X, nil); ok {
				all = append(all, text+"…")
			}
			if text, ok := literal(sum.Y, nil); ok {
				all = append(all, "…"+text)
			}
			return true
		})
	})
	return all
}

// localConstants are the values of all constants of a package, those within functions
// too, by name.
func localConstants(t *testing.T, name string) map[string]string {
	t.Helper()
	all := map[string]string{}
	each(t, name, func(n ast.Node) {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && len(spec.Values) == 1 {
			if text, ok := literal(spec.Values[0], nil); ok {
				all[spec.Names[0].Name] = text
			}
		}
	})
	return all
}

// literal is the value of a text, which may be put together of several and of constants
// that are named.
func literal(e ast.Expr, named map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := named[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		left, ok := literal(e.X, named)
		right, also := literal(e.Y, named)
		return left + right, ok && also && e.Op == token.ADD
	}
	return "", false
}

var (
	quotedVerb = regexp.MustCompile(`%q|\{[a-z]+\}`)
	plainVerb  = regexp.MustCompile(`%[svdwt]`)
)

// asRead puts an ellipsis where a text has something that is known later only.
func asRead(text string) string {
	return plainVerb.ReplaceAllString(quotedVerb.ReplaceAllString(text, `"…"`), "…")
}

// source is every text of the commands and packages, and every manifest, with names of
// constants put in where a text is made of several.
var source = sync.OnceValues(func() (string, error) {
	var all strings.Builder
	for _, top := range []string{"cmd", "pkg", "manifests"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			ext := filepath.Ext(path)
			if err != nil || strings.HasSuffix(path, "_test.go") || ext != ".go" && ext != ".yaml" {
				return err
			}
			data, err := os.ReadFile(path)
			all.Write(data)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return all.String(), nil
})

// inSource reports whether a text, or what a user reads of it, is written anywhere in the
// commands, packages and manifests. Verbs stand for any one word.
func inSource(t *testing.T, text string) bool {
	t.Helper()
	all, err := source()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(all, text) {
		return true
	}
	words := strings.Fields(text)
	for i := range words {
		words[i] = `(?:` + regexp.QuoteMeta(words[i]) + `|\S*%(?:\[\d\])?[a-z]\S*|" \+ \S+ \+ ")`
	}
	return regexp.MustCompile(strings.Join(words, " ")).MatchString(all)
}
